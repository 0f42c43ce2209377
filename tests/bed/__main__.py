"""The command line of the test cluster (the bed): `python -m bed up`, `down`, `status` and so on.

`up` leaves the bed running when the command ends; `down` removes it, and also what a killed bed
left behind.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from bed.binaries import binaries
from bed.claim import Claim, Standing, state_folder
from bed.cluster import Bed
from bed.config import BedConfig, NodeDevices
from bed.errors import BedError
from bed.images import IMAGES, base_archive, build_image
from bed.imagestore import template
from bed.packages import install_packages
from bed.sweep import sweep

_PASSED_ON = ("kubectl", "helm")


def _tools(_: argparse.Namespace) -> None:
    install_packages()
    binaries()
    template([base_archive()])


def _images(options: argparse.Namespace) -> None:
    unknown = set(options.names) - IMAGES.keys()
    if unknown:
        raise BedError(f"there is no image {min(unknown)!r}; the images are {', '.join(IMAGES)}")
    for name in options.names or IMAGES:
        spec = IMAGES[name]
        print(f"{spec.reference}: {build_image(spec)}")


def _up(options: argparse.Namespace) -> None:
    _tools(options)
    count = options.devices_per_node
    config = BedConfig(
        nodes=options.nodes,
        devices=NodeDevices(gpus=count, nics=count) if count else None,
        policy_engine=options.policy,
    )
    bed = Bed.up(config, lifetime="until-down")
    bed.leave()
    print(f"kubeconfig: {bed.kubeconfig}")


def _down(options: argparse.Namespace) -> None:
    claim = Claim(state_folder())
    if options.wreckage_only and claim.standing() is Standing.STAYS:
        claim.release()
        return
    sweep(claim.state)
    claim.release()


def _status(_: argparse.Namespace) -> None:
    bed = Bed.attached()
    print(
        f"kubeconfig: {bed.kubeconfig}\naudit log:  {bed.audit_log}\nlogs:       {bed.log_folder}"
    )
    print(bed.kubectl("get", "nodes", "-o", "wide"), end="")
    print(bed.kubectl("get", "pods", "--all-namespaces", "-o", "wide"), end="")


def _pass_on(program: str, words: Sequence[str]) -> None:
    client = Bed.attached().client
    path = client.program(program)
    os.execve(path, [path, *words], client.environment())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bed", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    tools = commands.add_parser("tools", help="install and build the programs of the bed")
    tools.set_defaults(act=_tools)
    images = commands.add_parser("images", help="build all images as archives in the cache")
    images.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(IMAGES)} (all)")
    images.set_defaults(act=_images)
    up = commands.add_parser("up", help="bring up a cluster, and leave it running")
    up.add_argument("--nodes", type=int, default=2, metavar="N")
    devices = up.add_mutually_exclusive_group()
    devices.add_argument(
        "--devices-per-node", type=int, default=1, metavar="N", help="GPUs and NICs per node (1)"
    )
    devices.add_argument("--no-devices", dest="devices_per_node", action="store_const", const=0)
    up.add_argument("--policy", choices=["kube-router", "none"], default="kube-router")
    up.set_defaults(act=_up)
    down = commands.add_parser("down", help="remove the cluster and everything that belongs to it")
    down.add_argument(
        "--wreckage-only", action="store_true", help="keep a bed that was brought up to stay"
    )
    down.set_defaults(act=_down)
    status = commands.add_parser("status", help="show nodes, pods and the paths of files")
    status.set_defaults(act=_status)
    for program in _PASSED_ON:
        commands.add_parser(program, help=f"run {program} as the cluster's admin")
    return parser


def main(words: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    try:
        # Before argparse, which would take the options of the other program for its own.
        if words and words[0] in _PASSED_ON:
            _pass_on(words[0], words[1:])
        options = _parser().parse_args(words)
        options.act(options)
    except BedError as error:
        print(f"bed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
