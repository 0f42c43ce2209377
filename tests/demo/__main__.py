"""`python -m demo up|down`: what `make demo` and `make demo-down` run."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

from bed.__main__ import main as bed_command
from bed.cluster import Bed
from bed.errors import BedError
from stage.deployments import DEMO
from stage.installation import NAMESPACE, install
from stage.service import Service
from stage.shape import serving_bed

from demo import proof

_NAMESPACE = "demo"

_LOOK_FURTHER = """
Look further:
  make kubectl ARGS='-n demo describe pdd demo'
  make kubectl ARGS='-n demo get pods -o wide'
  make kubectl ARGS='-n demo logs -l moriio.dev/role=decode --tail=20'
  make kubectl ARGS='-n moriio-system logs deploy/moriio-operator'
Take it down:
  make demo-down
"""


def _step(began: float, text: str) -> None:
    print(f"\n== {text} ({time.monotonic() - began:.0f} s)", flush=True)


def up() -> int:
    """Run the demo; give 0 only if the proof holds."""
    began = time.monotonic()
    _step(began, "Building images and the model, unless they are there")
    config = serving_bed()
    _step(began, "Bringing up a Kubernetes cluster of two nodes")
    bed = Bed.up(config, lifetime="until-down")
    try:
        return _serve(bed, began)
    finally:
        bed.leave()
        print(_LOOK_FURTHER)


def _serve(bed: Bed, began: float) -> int:
    _step(began, f"Installing the chart into {NAMESPACE}")
    install(bed, [_NAMESPACE])
    _step(began, "Applying examples/demo.yaml, and waiting for it to serve")
    bed.kubectl("create", "namespace", _NAMESPACE)
    bed.kubectl("apply", "-f", str(DEMO))
    service = Service(bed, _NAMESPACE, "demo")
    service.wait_settled()
    _step(began, "What runs")
    _show(bed)
    _step(began, "Three prompts through the router")
    tokens = proof.ask(service)
    _step(began, "Where the decode engine had its prompt tokens from")
    for source, count in asdict(tokens).items():
        print(f'  vllm:prompt_tokens_by_source_total{{source="{source}"}} = {count}')
    if not proof.holds(tokens):
        print("\nNOT PROVED: the decode engine computed prompt tokens itself.")
        return 1
    print("\nPROVED: the KV cache of every prompt crossed from one node to the other.")
    return 0


def _show(bed: Bed) -> None:
    wide = ("-o", "wide")
    print(bed.kubectl("get", "nodes"))
    columns = "POD:.metadata.name,NODE:.spec.nodeName,IP:.status.podIP,PHASE:.status.phase"
    print(bed.kubectl("-n", _NAMESPACE, "get", "pods", "-o", f"custom-columns={columns}"))
    print(bed.kubectl("-n", _NAMESPACE, "get", "pdd", *wide))
    conditions = "{range .status.conditions[*]}{.type}{'='}{.status}{'\\t'}{.message}{'\\n'}{end}"
    print(bed.kubectl("-n", _NAMESPACE, "get", "pdd", "demo", "-o", f"jsonpath={conditions}"))


def main(arguments: list[str]) -> int:
    """Run one command; give the exit code."""
    if arguments == ["down"]:
        return bed_command(["down"])
    if arguments != ["up"]:
        print("usage: python -m demo up|down", file=sys.stderr)
        return 2
    try:
        return up()
    except (AssertionError, BedError, LookupError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
