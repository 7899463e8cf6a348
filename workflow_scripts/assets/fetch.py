"""Fetch weights, a data set or benchmark files from the hub into a folder.

    python -m workflow_scripts.assets.fetch --spec '{"source": {"hub": "openai/clip-vit-large-patch14-336"}}' \\
        --folder assets/openai--clip-vit-large-patch14-336 --out assets/openai--clip-vit-large-patch14-336.json

Files out: --folder with the repository's files, and the manifest --out.
"""

from workflow_scripts.command import load_spec, parser, run
from workflow_scripts.errors import NotInThisVersion
from workflow_scripts.plan import FetchJob


def main(argv: list[str] | None = None) -> None:
    """Say that this version does not download."""
    arguments = parser(__doc__)
    arguments.add_argument("--folder", required=True, help="folder of the files")
    arguments.add_argument("--out", required=True, help="manifest, written last")
    source = load_spec(arguments.parse_args(argv).spec, FetchJob).source
    raise NotInThisVersion(
        f"assets.fetch: downloading {source.hub or source.path} is not in this version; put its files into a local "
        "folder and give `path: <that folder>` in place of `hub:` (and `revision:`) at that source in the config"
    )


if __name__ == "__main__":
    run(main)
