"""The rounds of a benchmark, in their order, each giving what was seen of it.

Bare client, operator, bare client and so on: what changes on the machine meanwhile hits both.
Before the next round all objects of the last one are gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bed.cluster import Bed
from bed.command import wait_until
from moriio_operator.api import names
from moriio_operator.api.kinds import OWNED

from bench import figures, pace, subject
from bench.figures import Latency
from bench.ledger import Entry, Ledger
from bench.subject import BARE, CREATOR, NAMESPACE, OPERATOR, Process, user

PROBE = "probe-000"
IDLE_S = 30
# Short, so that the idle time sees several.
_IDLE_RESYNC_S = 10
_RESYNC_S = 300
_QUIET_S = 5.0
_SETTLE_S = 600
_CRDS = str(Path(__file__).resolve().parents[2] / "crds")


@dataclass(frozen=True, slots=True)
class Shape:
    """How much, how fast, on what."""

    deployments: int
    per_second: float
    # Rounds of the operator; the bare client has one more.
    turns: int
    nodes: int = 20
    profile: Path | None = None


@dataclass(frozen=True, slots=True)
class Creation:
    """What was seen of a hundred creates."""

    latency: Latency
    calls: dict[str, float]
    cpu_s: float
    memory_mib: float


@dataclass(frozen=True, slots=True)
class Idle:
    """What was seen of an operator that has nothing to do."""

    writes: int
    reads: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Life:
    """What was seen after the creates of the last round."""

    update: Latency
    idle: Idle
    delete: Latency


@dataclass(frozen=True, slots=True)
class Result:
    """All that was seen."""

    shape: Shape
    objects: int
    probe_calls: dict[str, float]
    bare: tuple[Creation, ...]
    operator: tuple[Creation, ...]
    life: Life


class Bench:
    """A bed with who takes part."""

    def __init__(self, bed: Bed, shape: Shape, folder: Path) -> None:
        bed.play_nodes(shape.nodes, closed=False)
        # Routers cannot be told where to go, and shall be played as well.
        bed.kubectl("cordon", *bed.node_names)
        bed.kubectl("apply", "--server-side", "-f", _CRDS)
        bed.kubectl("wait", "--for=condition=Established", "-f", _CRDS)
        self.bed, self.shape, self.folder = bed, shape, folder
        self.kubeconfigs = subject.admit(bed, folder)
        self.ledger = Ledger(bed.audit_log)
        self.recorded = folder / "recorded.jsonl"
        self.probe_uid = ""
        self.objects = 0

    def run(self) -> Result:
        """Do all rounds."""
        probe_calls = self._probe()
        # The first objects of a kind, and the first hundred pods, cost the cluster more.
        self._bare_round("warm")
        bare, operator = [self._bare_round("bare0")], []
        for turn in range(1, self.shape.turns + 1):
            operator.append(self._operator_round(f"given{turn}"))
            if turn == self.shape.turns:
                life = self._life(f"given{turn}")
            self._clear()
            bare.append(self._bare_round(f"bare{turn}"))
        return Result(self.shape, self.objects, probe_calls, tuple(bare), tuple(operator), life)

    def _probe(self) -> dict[str, float]:
        """Let the operator make one PDDeployment, and record it."""
        config = subject.write_settings(self.folder / "probe.json", _RESYNC_S)
        log = self.folder / "probe.log"
        running = subject.start_recording(config, self.recorded, self.kubeconfigs[OPERATOR], log)
        with _ended(running):
            self._await_lead(running, config)
            began = time.time()
            self._at_pace([PROBE], pace.create)
            entries = self._settled(running, OPERATOR, began)
            got = self.bed.kubectl_json("-n", NAMESPACE, "get", names.PLURAL, PROBE)
            self.probe_uid = got["metadata"]["uid"]
            self.objects = len(figures.made_until(entries, [PROBE])[PROBE])
        self._clear()
        return figures.calls_each(entries, 1)

    def _bare_round(self, title: str) -> Creation:
        log = self.folder / f"bare-{title}.log"
        running = subject.start_bare(
            self.recorded, PROBE, self.probe_uid, self.kubeconfigs[BARE], log
        )
        with _ended(running):
            running.await_log("watching")
            made = self._creation(running, BARE, self._names(title))
        self._clear()
        return made

    def _operator_round(self, title: str) -> Creation:
        with self._operator(title, _RESYNC_S) as running:
            return self._creation(running, OPERATOR, self._names(title))

    def _life(self, title: str) -> Life:
        """Go on with what an operator's round has made."""
        deployments = self._names(title)
        with self._operator("update", _RESYNC_S) as running:
            update = self._update(running, deployments)
        with self._operator("idle", _IDLE_RESYNC_S) as running:
            return Life(update, self._idle(running), self._delete(deployments))

    @contextmanager
    def _operator(self, title: str, resync_s: float) -> Iterator[Process]:
        """Run an operator that has looked at what is there."""
        config = subject.write_settings(self.folder / f"{title}.json", resync_s)
        log, profile = self.folder / f"{title}.log", self.shape.profile
        profile = profile and profile.with_suffix(f".{title}{profile.suffix}")
        running = subject.start_operator(config, self.kubeconfigs[OPERATOR], log, profile)
        with _ended(running):
            self._await_lead(running, config)
            yield running

    def _await_lead(self, running: Process, config: Path) -> None:
        """Wait until the operator leads, and has looked at what is there."""
        subject.await_lead(running, config)
        self._quiet(running, OPERATOR, time.time())

    def _creation(self, running: Process, account: str, deployments: list[str]) -> Creation:
        began, cpu_s = time.time(), running.cpu_s()
        self._at_pace(deployments, pace.create)
        entries = self._settled(running, account, began)
        wished = {
            entry.name: entry.answered
            for entry in self.ledger.entries(user(CREATOR), began)
            if entry.made
        }
        made = figures.made_until(entries, deployments)
        short = {name: len(times) for name, times in made.items() if len(times) != self.objects}
        if short:
            raise RuntimeError(f"not {self.objects} objects were made of: {short}")
        return Creation(
            figures.latency(max(times) - wished[name] for name, times in made.items()),
            figures.calls_each(entries, len(deployments)),
            running.cpu_s() - cpu_s,
            running.memory_mib(),
        )

    def _update(self, running: Process, deployments: list[str]) -> Latency:
        """Change a setting of the routers, and see when each router Deployment has it."""
        began = time.time()
        self._at_pace(deployments, pace.patch)
        entries = self._settled(running, OPERATOR, began)
        asked = figures.first(self.ledger.entries(user(CREATOR), began), "patch", names.PLURAL)
        done = figures.first(entries, "patch", "deployments")
        return figures.latency(done[name] - asked[name] for name in deployments)

    def _idle(self, running: Process) -> Idle:
        """Watch an operator that has just looked at everything once."""
        began, cpu_s = time.time(), running.cpu_s()
        wait_until(
            lambda: time.time() > began + IDLE_S,
            timeout_s=2 * IDLE_S,
            what="the idle time to pass",
            every_s=1,
        )
        running.check()
        entries = self.ledger.entries(user(OPERATOR), began)
        writes = sum(entry.writes for entry in entries)
        return Idle(writes, len(entries) - writes, running.cpu_s() - cpu_s)

    def _delete(self, deployments: list[str]) -> Latency:
        """Delete, and see when the last pod of each is gone from the API."""
        began = time.time()
        self._at_pace(deployments, pace.delete)
        self._await_empty()
        entries = self.ledger.entries(None, began)
        asked = figures.first(
            (entry for entry in entries if entry.user == user(CREATOR)), "delete", names.PLURAL
        )
        gone: dict[str, float] = {}
        for entry in entries:
            owner = figures.owner_of(entry.name, asked)
            if owner and (entry.verb, entry.resource, entry.code) == ("delete", "pods", 200):
                gone[owner] = max(gone.get(owner, 0), entry.answered)
        return figures.latency(gone[name] - asked[name] for name in deployments)

    def _first(
        self, entries: Iterator[Entry] | list[Entry], verb: str, resource: str
    ) -> dict[str, float]:
        """Give for each PDDeployment when a call about it was answered first."""
        first: dict[str, float] = {}
        for entry in entries:
            if (entry.verb, entry.resource, entry.subresource) == (verb, resource, ""):
                first.setdefault("-".join(entry.name.split("-")[:2]), entry.answered)
        return first

    def _names(self, title: str) -> list[str]:
        return [f"{title}-{index:03}" for index in range(self.shape.deployments)]

    def _at_pace(self, deployments: list[str], act: pace.Act) -> None:
        pace.run(self.kubeconfigs[CREATOR], deployments, self.shape.per_second, act)

    def _settled(self, running: Process, account: str, since: float) -> list[Entry]:
        """Wait until there is nothing left to do, and give all calls that it took."""
        self._quiet(running, account, since)
        return self.ledger.entries(user(account), since)

    def _quiet(self, running: Process, account: str, since: float) -> None:
        def is_quiet() -> bool:
            running.check()
            return time.time() - max(self.ledger.last_call(user(account)), since) > _QUIET_S

        what = f"the {account} to be done"
        wait_until(is_quiet, timeout_s=_SETTLE_S, what=what, every_s=1)

    def _clear(self) -> None:
        self.bed.kubectl("-n", NAMESPACE, "delete", names.PLURAL, "--all", "--wait=false")
        self._await_empty()

    def _await_empty(self) -> None:
        owned = ",".join(f"{kind.plural}.{kind.group}".rstrip(".") for kind in OWNED)
        label = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
        listing = ("-n", NAMESPACE, "get", f"{owned},replicasets.apps", "-l", label, "-o", "name")
        what = "what a round made to be gone"
        wait_until(
            lambda: not self.bed.kubectl(*listing), timeout_s=_SETTLE_S, what=what, every_s=2
        )


@contextmanager
def _ended(running: Process) -> Iterator[None]:
    try:
        yield
    finally:
        running.stop()
