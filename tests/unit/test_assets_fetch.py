import pytest

from workflow_scripts.assets import fetch
from workflow_scripts.errors import NotInThisVersion


def test_downloading_names_the_repository_and_what_to_do(tmp_path):
    with pytest.raises(NotInThisVersion, match=r"assets.fetch: downloading owner/name .*`path:"):
        fetch.main(["--spec", '{"source": {"hub": "owner/name"}}', "--folder", str(tmp_path / "x"), "--out", "x.json"])
    assert not (tmp_path / "x").exists()
