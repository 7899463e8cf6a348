import json

import numpy as np
import pandas as pd
import pytest

from workflow_scripts.captions import figures, plot
from workflow_scripts.captions.read import FAULTS
from workflow_scripts.records import write_table

DESIGN = pd.DataFrame({"family": ["a", "a", "b"], "label": ["One", "Two", "Three"]}, index=["one", "two", "three"])


def encoder_rows(captioner, pipeline, encoder, limit, bins):
    total, over = sum(bins.values()), sum(n for (low, _), n in bins.items() if low > limit)
    named = {"captioner": captioner, "pipeline": pipeline, "encoder": encoder}
    lengths = [{**named, "low": low, "high": high, "num_captions": n} for (low, high), n in bins.items()]
    share = over / total if total else None
    return lengths, {**named, "limit": limit, "num_captions": total, "num_over": over, "share_over": share}


def tables(clip_g_limit=77, clip_g_bins=None):
    """Tables `caption_lengths` and `caption_limits` of three captioners; the last has no usable caption."""
    lengths, limits = [], []
    for captioner, bins in (("one", {(0, 1): 1, (4, 5): 3, (64, 68): 4}), ("two", {(80, 84): 8}), ("three", {})):
        for pipeline, name, limit, own in (
            ("vlm", "language model", 64, bins),
            ("sd3", "CLIP-L", 77, bins),
            ("sd3", "CLIP-G", clip_g_limit, clip_g_bins or bins),
        ):
            rows, row = encoder_rows(captioner, pipeline, name, limit, own)
            lengths += rows
            limits.append(row)
    return pd.DataFrame(lengths), pd.DataFrame(limits)


def statistics(**counts):
    row = {"num_images": 1000, "num_asked_again": 0, **{f"num_{fault}": 0 for fault in (*FAULTS, "failed")}, **counts}
    return pd.DataFrame([{"captioner": name, **row} for name in DESIGN.index])


def titles(lengths, limits):
    return [ax.get_title(loc="left") for ax in figures.caption_lengths(DESIGN, lengths, limits).axes]


def test_encoders_that_count_alike_share_a_panel():
    assert titles(*tables()) == ["vlm\nlanguage model, limit 64", "sd3\nCLIP-L, CLIP-G, limit 77"]
    assert len(titles(*tables(clip_g_limit=40))) == len(titles(*tables(clip_g_bins={(2, 3): 8}))) == 3


def test_shares_over_the_limit_stand_beside_the_rows():
    figure = figures.caption_lengths(DESIGN, *tables())
    beside = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert beside == [["0", "100%", "–", "over"]] * 2
    low, high = figure.axes[0].get_xlim()
    assert 0 < low < 1 and high > 84


def test_density_is_a_share_of_captions_a_unit_of_log_tokens():
    lengths, _ = tables()
    rows = lengths[(lengths.captioner == "one") & (lengths.encoder == "CLIP-L")].set_index("captioner")
    edges, height = figures._density(rows)
    assert edges.tolist() == [0.5, 1, 4, 5, 64, 68]
    assert height * np.diff(np.log(edges)) == pytest.approx([1 / 8, 0, 3 / 8, 0, 4 / 8])


def test_bars_are_shares_of_images_by_fault():
    figure = figures.caption_faults(DESIGN, statistics(num_cut=20, num_failed=5, num_asked_again=30))
    (ax,) = figure.axes
    assert sorted({round(bar.get_width(), 6) for bar in ax.patches}) == [0.5, 2.0]
    assert [text.get_text() for text in ax.texts] == ["2.5%, asked again 3.0%"] * 3
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["failed", "cut at the limit"]
    assert figures.FAULT_STYLES.keys() == {"failed", *FAULTS}
    assert not figures.caption_faults(DESIGN, statistics()).legends


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0"), (0.0001, "<0.1%"), (0.034, "3.4%"), (0.5, "50%"), (1, "100%"), (float("nan"), "–")]
)
def test_percentages(share, text):
    assert figures.percent(share) == text


def test_command_draws_both_and_repeats_itself(tmp_path):
    lengths, limits = tables()
    rows = statistics(num_usable=8, distinct_words=3, share_at_limit=0.0)
    words = [f"{unit}_{part}" for unit in ("words", "tokens") for part in ("mean", "p50", "p95", "max")]
    rows = rows.assign(**dict.fromkeys([*words, "repetition"], 1))
    for name in DESIGN.index:
        folder = tmp_path / "captions" / name
        for table, frame in (("statistics", rows), ("lengths", lengths), ("limits", limits)):
            write_table(folder / f"{table}.csv", frame[frame.captioner == name], f"caption_{table}")
    job = {"captioners": DESIGN.rename_axis("captioner").reset_index().to_dict("records")}
    arguments = ["--spec", json.dumps(job), "--captions", str(tmp_path / "captions"), "--out-dir"]
    drawn = []
    for out in (tmp_path / "first", tmp_path / "second"):
        plot.main([*arguments, str(out)])
        drawn.append({path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".svg", ".png")})
    assert drawn[0] == drawn[1]
    assert drawn[0].keys() == {f"caption_{name}.{kind}" for name in ("faults", "lengths") for kind in ("svg", "png")}
