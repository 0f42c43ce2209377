"""Where things are: the files of the repo that define an image, and uv, which installs them."""

import shutil
import sys
from pathlib import Path

from bed.cache import REPO
from bed.errors import BedError

ENGINE_IMAGE = REPO / "images" / "engine-cpu"
ROUTER_IMAGE = REPO / "images" / "router"

# Debian bookworm's interpreter and C library: what the images are made of.
PYTHON_VERSION = "3.11"
PLATFORM = "x86_64-manylinux_2_36"


def uv() -> str:
    """Path of uv: the one beside this interpreter, else the one on PATH."""
    beside = shutil.which("uv", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("uv")
    if found is None:
        raise BedError(f"uv is neither beside {sys.executable} nor on PATH: run `make env`")
    return found
