"""The command line: one entry point with a subcommand a role, for one image."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import structlog

from moriio_operator import __version__
from moriio_operator.facts.terms import ROLES, ConnectorType, Mode
from moriio_operator.kube.lease import LeaseLostError
from moriio_operator.runtime.settings import Settings
from moriio_operator.telemetry import logs

log = structlog.get_logger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; give the exit code."""
    arguments = _parser().parse_args(argv)
    result: int = arguments.run(arguments)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="moriio-operator", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("operator", help="reconcile PDDeployments")
    run.add_argument("--config", type=Path, required=True, help="settings file (JSON)")
    run.set_defaults(run=_operator)

    register = commands.add_parser("registrar", help="register engines with the router of this pod")
    register.add_argument("--connector", default=ConnectorType.MORIIO.value, help="type of stack")
    register.add_argument("--mode", type=Mode, required=True, help="Read or Write")
    register.add_argument("--router", required=True, help="registration socket, ADDRESS:PORT")
    register.add_argument("--port", type=int, required=True, help="health and metrics port")
    # Router pods of an older version lack it.
    register.add_argument("--deployment", help="the PDDeployment, for the report on its engines")
    register.add_argument("--log-level", default="info")
    for role in ROLES:
        register.add_argument(f"--{role}", required=True, help=f"headless Service of {role}")
        register.add_argument(f"--{role}-tensor", type=int, default=1, help="tensor parallel size")
        register.add_argument(f"--{role}-data", type=int, default=1, help="data parallel size")
    register.set_defaults(run=_registrar)

    preflight = commands.add_parser("preflight", help="try the ports of an engine on its node")
    preflight.add_argument("--port", type=int, action="append", required=True, help="one to try")
    preflight.set_defaults(run=_preflight)

    check = commands.add_parser(
        "install-check", help="check that the API server accepts a PDDeployment"
    )
    check.set_defaults(run=_install_check)
    return parser


# Each role imports what it runs: a registrar without kopf is half the memory in every router pod.
def _operator(arguments: argparse.Namespace) -> int:
    from moriio_operator.runtime import operator  # noqa: PLC0415

    try:
        settings = Settings.load(arguments.config)
    except (OSError, ValueError) as error:
        print(f"settings {arguments.config}: {error}", file=sys.stderr)  # noqa: T201 - no log yet
        return 2
    logs.configure(settings.log_level)
    # The first process of a container has no default for it; soon the running loop has its own.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    try:
        asyncio.run(operator.run(settings))
    except LeaseLostError as error:
        log.error("no longer the leader", error=str(error))  # noqa: TRY400 - no fault of the code
        return 1
    return 0


def _registrar(arguments: argparse.Namespace) -> int:
    from moriio_operator.node import registrar  # noqa: PLC0415
    from moriio_operator.node.endpoints import RoleService  # noqa: PLC0415
    from moriio_operator.stack import table  # noqa: PLC0415

    logs.configure(arguments.log_level)
    stack = table.named(arguments.connector)
    services = {
        getattr(arguments, role): RoleService(
            role,
            getattr(arguments, f"{role}_tensor"),
            getattr(arguments, f"{role}_data"),
            stack,
        )
        for role in ROLES
    }
    asyncio.run(
        registrar.run(
            arguments.mode, arguments.router, arguments.port, services, arguments.deployment
        )
    )
    return 0


def _preflight(arguments: argparse.Namespace) -> int:
    from moriio_operator.node import preflight  # noqa: PLC0415

    return preflight.run(arguments.port)


def _install_check(_: argparse.Namespace) -> int:
    from moriio_operator.runtime import install_check  # noqa: PLC0415

    return install_check.run(os.environ)


if __name__ == "__main__":
    sys.exit(main())
