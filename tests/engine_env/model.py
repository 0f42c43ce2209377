"""Makes the models that tests and the demo serve: of a million random parameters and fewer.

No download: the environment's own interpreter writes configuration, tokenizer and weights, from a
fixed seed, so every machine serves the same ones.
"""

from pathlib import Path

from bed.cache import entry, tree_digest

from engine_env.environment import AT, LOCK, environment
from engine_env.imageroot import run_in_image

_HERE = Path(__file__).parent


def models() -> Path:
    """Return the folder of models, each in a folder of its name; made if it is absent."""
    key = tree_digest([_HERE / "tiny_models.py", LOCK])
    return entry(f"models-{key}", "making the tiny models", _build)


def _build(folder: Path) -> None:
    folder.mkdir()
    binds = {AT: environment(), "/build": _HERE, "/models": folder}
    program = [f"{AT}/bin/python", "/build/tiny_models.py", "/models"]
    run_in_image(binds, program)
