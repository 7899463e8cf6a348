"""Let the registry's torchvision load beside a CPU build of torch. Run it once with the environment's python.

The registry's wheel is built for CUDA: its compiled operators do not load here, and its import then stops because two
of them are not even declared. This adds their declarations to the installed package; image processors need no more.
Where the operators load, nothing happens. Running it again changes nothing.
"""

import importlib.util
from pathlib import Path

MARK = "# Declared by capsweep"
DECLARATIONS = f"""

{MARK}, as the compiled operators do not load beside this torch:
if not _has_ops():
    _declared = torch.library.Library("torchvision", "DEF")
    _declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def main() -> None:
    """Extend torchvision/extension.py, the module that loads the operators."""
    package = importlib.util.find_spec("torchvision")
    assert package is not None and package.origin is not None, "torchvision is not installed"
    module = Path(package.origin).with_name("extension.py")
    source = module.read_text(encoding="utf-8")
    if MARK not in source:
        module.write_text(source + DECLARATIONS, encoding="utf-8")


if __name__ == "__main__":
    main()
