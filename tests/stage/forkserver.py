"""A process that has imported the operator, and forks one for each line that it reads.

A line is `{"config": .., "kubeconfig": .., "log": ..}`; the answer is the pid. The forked process
does what `python -m moriio_operator.runtime.main operator` does; this one holds no thread, loop or
connection that a fork could tear.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import kubernetes.aio.client
import kubernetes.aio.config
from moriio_operator.runtime import main, operator

# Named, so that importing them is seen to be the point; the client's modules come when asked for.
_PRELOADED = (operator, kubernetes.aio.client.ApiClient, kubernetes.aio.config.load_kube_config)


def serve() -> None:
    """Fork until the standard input ends."""
    # Whoever ends is gone at once, with nobody waiting for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
        print(pid, flush=True)


def _become(order: dict[str, str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.environ["KUBECONFIG"] = order["kubeconfig"]
    code = 1
    try:
        code = main.main(["operator", "--config", order["config"]])
    except BaseException:  # noqa: BLE001 - told as the interpreter would, and this process ends here
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
