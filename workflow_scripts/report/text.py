"""How the page writes numbers. A missing number is an en dash, a minus is a minus."""

import math

MISSING = "–"


def fixed(value: float | None, digits: int = 1) -> str:
    """`61.23` as `61.2`."""
    return MISSING if absent(value) else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """`0.2153` as `+0.215`."""
    return MISSING if absent(value) else f"{value:+.{digits}f}".replace("-", "−")


def bounds(pair: tuple[float | None, float | None], digits: int = 3, sign: bool = True) -> str:
    """An interval as `[+0.040, +0.197]`; a dash where either end is missing."""
    if any(map(absent, pair)):
        return MISSING
    write = signed if sign else fixed
    return f"[{write(pair[0], digits)}, {write(pair[1], digits)}]"


def p_value(value: float | None) -> str:
    """`0.0261` as `0.026`, small ones as `<0.001`."""
    return MISSING if absent(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def count(value: float | None) -> str:
    """`14965` as `14,965`."""
    return MISSING if absent(value) else f"{int(value):,}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 as `9.4 %`."""
    return MISSING if absent(share) else f"{100 * share:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Seconds as `8.4 s`, `3 min 20 s`, `2 h 05 min`."""
    if absent(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def size(num_bytes: float | None) -> str:
    """Bytes as MB or GB."""
    if absent(num_bytes):
        return MISSING
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"


def absent(value: float | None) -> bool:
    """Whether a number is missing: None or NaN."""
    return value is None or math.isnan(value)


FILTERS = {
    "fixed": fixed,
    "signed": signed,
    "bounds": bounds,
    "p_value": p_value,
    "count": count,
    "percent": percent,
    "duration": duration,
    "size": size,
}
