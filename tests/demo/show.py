"""The part of the demo that its user watches: a PDDeployment becomes ready, answers, is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from bed.cluster import Bed
from stage.deployments import DEMO
from stage.service import Service

from demo import proof

NAMESPACE = "demo"
NAME = "demo"

Step = Callable[[str], None]


def show(bed: Bed, step: Step) -> bool:
    """Apply the demo's PDDeployment, ask it three prompts; return whether the KV cache crossed."""
    step("Applying examples/demo.yaml, and waiting until it is ready")
    bed.kubectl("create", "namespace", NAMESPACE)
    bed.kubectl("apply", "-f", str(DEMO))
    service = Service(bed, NAMESPACE, NAME)
    service.wait_settled()
    step("What is running")
    _print_state(bed)
    step("Three prompts through the router (the tiny model is untrained, so its answers are noise)")
    tokens = proof.ask(service)
    step("Where the decode engine got its prompt tokens from")
    for source, count in asdict(tokens).items():
        print(f'  vllm:prompt_tokens_by_source_total{{source="{source}"}} = {count}')
    nodes = {pod["spec"]["nodeName"] for pod in service.pods()}
    if len(nodes) < 2 or not proof.holds(tokens):
        print("\nNOT PROVED: prompt tokens were computed by the decode engine, or on its node.")
        return False
    print("\nPROVED: the KV cache of every prompt crossed from one node to the other.")
    return True


def _print_state(bed: Bed) -> None:
    print(bed.kubectl("get", "nodes"))
    columns = "POD:.metadata.name,NODE:.spec.nodeName,IP:.status.podIP,PHASE:.status.phase"
    print(bed.kubectl("-n", NAMESPACE, "get", "pods", "-o", f"custom-columns={columns}"))
    print(bed.kubectl("-n", NAMESPACE, "get", "pdd"))
    conditions = "{range .status.conditions[*]}{.type}{'='}{.status}{'\\t'}{.message}{'\\n'}{end}"
    print(bed.kubectl("-n", NAMESPACE, "get", "pdd", NAME, "-o", f"jsonpath={conditions}"))
