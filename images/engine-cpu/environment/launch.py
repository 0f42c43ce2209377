#!/opt/engine/bin/python
"""The `vllm` command of the environment: vLLM's own, made to start fast on few cores.

Nearly all of a start is imports: three processes (API server, engine core, worker) load torch and
vLLM one after the other, and a fourth does so only to ask what the model's class can do. Here one
process loads them once. Before it becomes the API server a copy of it is forked off as Python's
forkserver, from which the engine core is forked where vLLM asks for spawn, and the worker from the
engine core. What there is to know of the model's class comes with the environment, and the garbage
collector is kept from walking over what imports leave behind. What runs is vLLM's installed code.
"""

import gc
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import context, forkserver, resource_tracker, util
from pathlib import Path

_SPAWN = util.spawnv_passfds
_FACTS = Path(sys.prefix) / "share" / "modelinfos"

_LOADED = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
)

# A third of an import's time is the collector walking over modules that stay anyway.
gc.set_threshold(100_000, 50, 50)


def _copy_model_facts() -> None:
    """Put the facts on model classes into vLLM's cache, which is empty in a new pod."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    target = Path(os.environ.get("VLLM_CACHE_ROOT") or Path(cache) / "vllm") / "modelinfos"
    if not target.exists():
        try:
            shutil.copytree(_FACTS, target)
        except OSError as error:
            # A slower start, no more: vLLM then finds them out itself.
            sys.stderr.write(f"vllm: model facts not copied: {error}\n")


def _warm_up() -> None:
    """Load vLLM, and start the process that the engine core is forked from."""
    if any(argument.startswith("--data-parallel-size") for argument in sys.argv):
        # An API server for each rank, and each adds to what /metrics tells. That is decided when
        # the metrics' library is loaded, which is sooner here than when vLLM makes this folder.
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="metrics-"))
    for module in _LOADED:
        importlib.import_module(module)
    # In there, and so in the engine core: fork the worker too, as vLLM does unless told otherwise.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
    # It would be started on the way, and in the same way.
    resource_tracker.ensure_running()
    util.spawnv_passfds = _fork_in_place
    forkserver.ensure_running()
    # Here: vLLM's CPU platform insists on a method by name, so the name gets another meaning.
    del os.environ["VLLM_WORKER_MULTIPROC_METHOD"]
    methods: dict[str, context.BaseContext] = vars(context)["_concrete_contexts"]
    methods["spawn"] = methods["forkserver"]


def _fork_in_place(_path: str, arguments: Sequence[str], kept: Sequence[int]) -> int:
    """Do as a new interpreter would with `-c CODE`, but in a copy of this one; give its pid."""
    util.spawnv_passfds = _SPAWN
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        first = 3  # after the standard streams
        for descriptor in sorted(kept):
            os.closerange(first, descriptor)
            first = descriptor + 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        try:
            exec(arguments[-1], {})  # ends by raising, and what called us is the parent's
        finally:
            os._exit(0)
    return pid


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _warm_up()
        _copy_model_facts()
    from vllm.entrypoints.cli.main import main  # type: ignore[import-not-found]

    sys.exit(main())
