"""Builds vLLM's environment: a virtual environment for the image's interpreter at /opt/engine.

    requirements.lock --uv--> packages --> interpreter links, `vllm` command
                          --> images/engine-cpu/environment/finish.py, by the image's interpreter

uv installs for a Python that need not be the host's. Everything that names a path names the one
inside the pod, since the folder is mounted there, read-only. The image's target `complete` makes
the same environment with pip.
"""

import shutil
import subprocess
from pathlib import Path

from bed.cache import digest, discard, entry, progress, tree_digest
from bed.errors import BedError

from engine_env.imageroot import run_in_image
from engine_env.places import ENGINE_IMAGE, PLATFORM, PYTHON_VERSION, uv

AT = "/opt/engine"
LOCK = ENGINE_IMAGE / "requirements.lock"
_PARTS = ENGINE_IMAGE / "environment"
_INTERPRETER = "/usr/bin/python3"


def environment() -> Path:
    """Return the folder to mount at /opt/engine, built if the cache does not have it."""
    what = "building vLLM's environment (a minute, and a download of 3 GB unless uv has it)"
    key = digest(tree_digest([LOCK, _PARTS, Path(__file__)]), PYTHON_VERSION, PLATFORM)
    return entry(f"engine-{key}", what, _build)


def _build(folder: Path) -> None:
    packages = folder / "lib" / f"python{PYTHON_VERSION}" / "site-packages"
    _install(packages)
    _move_data_files(packages, folder)
    _make_virtual_environment(folder)
    progress("vLLM's environment: compiling to bytecode")
    binds = {AT: folder, "/build": _PARTS}
    run_in_image(binds, [f"{AT}/bin/python", "/build/finish.py"])


def _install(packages: Path) -> None:
    command = [
        *(uv(), "pip", "install", "--target", str(packages), "--requirements", str(LOCK)),
        *("--python-version", PYTHON_VERSION, "--python-platform", PLATFORM),
        # The lock is complete, and resolving again would trip over vLLM's pin of torch+cpu.
        *("--no-deps", "--require-hashes", "--only-binary", ":all:"),
    ]
    said: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as install:
        assert install.stderr is not None
        for line in install.stderr:
            said.append(line)
            if line.strip().startswith("Downloading"):  # one for each large package
                progress(f"vLLM's environment: {line.strip()}")
    if install.returncode != 0:
        raise BedError(f"uv could not install {LOCK}: {''.join(said[-20:])}")


def _move_data_files(packages: Path, folder: Path) -> None:
    """Take out of the packages what an install into a virtual environment puts beside them."""
    for library in sorted((packages / "lib").iterdir()):
        shutil.move(library, folder / "lib" / library.name)
    # The scripts start with the host's interpreter; the pod needs one command, ours.
    for leftover in ("bin", "lib", "share", "opt"):
        discard(packages / leftover)


def _make_virtual_environment(folder: Path) -> None:
    """Lay what the image's interpreter needs to take `folder` for its own."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name in ("python", "python3"):
        (binaries / name).symlink_to(_INTERPRETER)  # dangles on a host without it
    home = Path(_INTERPRETER).parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    shutil.copy(_PARTS / "launch.py", binaries / "vllm")
    (binaries / "vllm").chmod(0o755)
