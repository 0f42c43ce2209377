"""Run as a program by an interpreter that has vLLM: its real command line reads rendered arguments.

    python parse.py CASES.json ANSWERS.json

Only the step that would serve is replaced: it builds the engine's configuration instead, and lets
the MoRIIO connector read its part of it. A case is the arguments of `vllm serve` and the variables
of the engine.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"  # read at import

# None of these is in the environment for development, where this file is only checked.
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import (  # type: ignore[import-not-found]
    moriio_common,
)
from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.cli import main as cli  # type: ignore[import-not-found]
from vllm.entrypoints.cli.serve import ServeSubcommand  # type: ignore[import-not-found]

Json = dict[str, Any]

_read: list[Json] = []


def _configure(arguments: Namespace) -> None:
    if getattr(arguments, "model_tag", None):
        arguments.model = arguments.model_tag
    config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
    moriio_common.get_tensor_model_parallel_rank = lambda: 0
    moriio_common.get_tensor_model_parallel_world_size = lambda: (
        config.parallel_config.tensor_parallel_size
    )
    connector = moriio_common.MoRIIOConfig.from_vllm_config(config)
    _read.append(
        {
            "connector": vars(connector),
            "kv_connector": config.kv_transfer_config.kv_connector,
            "kv_role": config.kv_transfer_config.kv_role,
            "kv_load_failure_policy": config.kv_transfer_config.kv_load_failure_policy,
            "model": config.model_config.model,
            "served_name": config.model_config.served_model_name,
            "tensor": config.parallel_config.tensor_parallel_size,
            "data": config.parallel_config.data_parallel_size,
            "data_local": config.parallel_config.data_parallel_size_local,
            "expert": config.parallel_config.enable_expert_parallel,
            "prefix_caching": config.cache_config.enable_prefix_caching,
            "shutdown_timeout": config.shutdown_timeout,
            "host": arguments.host,
            "port": arguments.port,
        }
    )


def _answer(arguments: list[str], environment: dict[str, str]) -> Json:
    """Give what vLLM reads, or what it says against it."""
    _read.clear()
    sys.argv = ["vllm", "serve", *arguments]
    before, said = dict(os.environ), io.StringIO()
    os.environ.update(environment)
    try:
        with contextlib.redirect_stderr(said):
            cli.main()
        return {"value": _read[0]}
    except SystemExit:
        return {"raised": said.getvalue().strip()[-1000:]}
    except Exception as error:  # noqa: BLE001 - what vLLM raises is the answer
        return {"raised": f"{type(error).__name__}: {error}"}
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(cases: Path, answers: Path) -> None:
    """Read every case."""
    ServeSubcommand.cmd = staticmethod(_configure)
    asked = json.loads(cases.read_text())
    answers.write_text(json.dumps([_answer(**case) for case in asked]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
