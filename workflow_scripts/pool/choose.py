"""Which images are drawn: an order by seed and image id alone, and the first of each source in it."""

import hashlib
from collections.abc import Iterable

import numpy as np


def order_key(seed: int, image_id: str) -> bytes:
    """Where an image stands in the seeded order."""
    return hashlib.sha256(f"{seed}:{image_id}".encode()).digest()


def share_out(size: int, counts: dict[str, int]) -> dict[str, int]:
    """`size` divided in proportion to `counts`, whole numbers by largest remainder (ties: the first name)."""
    total = sum(counts.values())
    shares = {name: size * count // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: -(size * counts[name] % total))
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def seeded_order(image_ids: Iterable[str], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the images in the seeded order, each image once (at its first position); positions of the further
    copies; and for each copy the position of the first. All int64.
    """
    joined = bytearray()
    for image_id in image_ids:
        joined += order_key(seed, image_id)
    keys = np.frombuffer(joined, ">u8").reshape(-1, 4)
    order = np.lexsort(keys.T[::-1])  # stable: copies stay in the order of their positions
    keys = keys[order]
    copy = np.zeros(len(order), bool)
    copy[1:] = (keys[1:] == keys[:-1]).all(axis=1)
    first = np.maximum.accumulate(np.where(copy, 0, np.arange(len(order))))
    return order[~copy], order[copy], order[first[copy]]
