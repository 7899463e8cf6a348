import pytest

from workflow_scripts.captions.match import PictureIndex
from workflow_scripts.engines.interface import Picture

PATHS = [
    "data/coco/train2017/COCO_val2014_000000040468.jpg",
    "data/coco/train2017/000000010822.jpg",
    "data/sam/images/sa_17.jpg",
    "data/lcs/images/same.jpg",
    "data/sam/images/same.jpg",
    "data/lcs/images/twin.jpg",
    "data/lcs/images/twin.png",
    "C:\\shots\\one two.webp",
]
INDEX = PictureIndex([Picture(f"{n:064x}", path) for n, path in enumerate(PATHS)])


@pytest.mark.parametrize(
    ("key", "positions"),
    [
        (f"{1:064x}", [1]),
        (PATHS[2], [2]),
        ("sa_17.jpg", [2]),
        ("sa_17", [2]),
        ("17", [2]),
        ("40468", [0]),
        ("COCO_val2014_000000040468", [0]),
        ("10822", [1]),
        ("000000010822", [1]),
        ("same.jpg", [3, 4]),
        ("lcs/images/same.jpg", [3]),
        ("./data/lcs/images/same.jpg", [3]),
        ("/mnt/other/data/sam/images/same.jpg", [4]),
        ("web/images/same.jpg", []),  # a namesake in a folder that is not here
        ("ages/same.jpg", []),  # the end of a name is not a folder
        ("twin.png", [6]),
        ("twin", [5, 6]),
        ("shots/one two.webp", [7]),
        ("404", []),
        ("nothing.jpg", []),
        ("²", []),
    ],
)
def test_a_key_finds_the_pictures_that_it_names(key, positions):
    assert INDEX.find(key) == positions
