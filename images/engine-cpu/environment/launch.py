#!/opt/engine/bin/python
"""The `vllm` command of the environment: vLLM's own, made to start fast on few cores.

Nearly all of a start is imports: three processes (API server, engine core, worker) load torch and
vLLM one after the other, and a fourth does so only to ask what the model's class can do. Here a
process loads them beside the API server, the engine core is forked from it (by Python's forkserver,
where vLLM asks for spawn) and the worker from the engine core; what there is to know of the model's
class comes with the environment; and the garbage collector is kept from walking over what imports
leave behind. A start takes 11 s instead of 25 s on two cores. What runs is vLLM's installed code.
"""

import gc
import multiprocessing
import os
import shutil
import sys
import tempfile
from multiprocessing import context, forkserver
from pathlib import Path

_FACTS = Path(sys.prefix) / "share" / "modelinfos"

# A third of an import's time is the collector walking over modules that stay anyway. The children
# run this line too: they import this file under another name.
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
    """Start the process that the engine core is forked from, and let it load what that needs."""
    if any(argument.startswith("--data-parallel-size") for argument in sys.argv):
        # An API server for each rank, and each adds to what /metrics tells. That is decided when
        # the metrics' library is loaded, which is sooner here than when vLLM makes this folder.
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="metrics-"))
    # In there, and so in the engine core: fork the worker too, as vLLM does unless told otherwise.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
    multiprocessing.set_forkserver_preload(["vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"])
    forkserver.ensure_running()
    # Here: vLLM's CPU platform insists on a method by name, so the name gets another meaning.
    del os.environ["VLLM_WORKER_MULTIPROC_METHOD"]
    methods: dict[str, context.BaseContext] = vars(context)["_concrete_contexts"]
    methods["spawn"] = methods["forkserver"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _warm_up()
        _copy_model_facts()
    from vllm.entrypoints.cli.main import main  # type: ignore[import-not-found]

    sys.exit(main())
