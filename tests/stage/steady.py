"""A steady stream of requests from inside the cluster, and what became of each.

Run as a program in a node's namespaces, where Service addresses work: clients side by side, each
with one streaming completion after the other over a connection of its own, until a file appears.
What a client saw is written to another one, one JSON object per request.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stage.service import Service

_TIMEOUT_S = 60
_PORT = 8000


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as its client saw it: times in seconds of the host's monotonic clock."""

    began: float
    ended: float
    chunks: int
    error: str = ""


@dataclass(slots=True)
class Steady:
    """The requests of a while; read them once the `with` block has ended."""

    record: Path
    seen: list[Seen] = field(default_factory=list)

    def wait_many(self, count: int) -> None:
        """Wait, within the block, until so many requests have ended: a machine may be slow."""
        # The program that sends them runs this file with nothing of ours to import.
        from bed.command import wait_until  # noqa: PLC0415

        wait_until(
            lambda: len(self.record.read_text().splitlines()) >= count,
            timeout_s=_TIMEOUT_S,
            what=f"{count} requests to end",
        )

    @property
    def failed(self) -> list[Seen]:
        """Requests that did not end well."""
        return [each for each in self.seen if each.error]

    def across(self, moment: float) -> list[Seen]:
        """Requests that were under way at a moment."""
        return [each for each in self.seen if each.began < moment < each.ended]


@contextmanager
def steady(service: Service, *, model: str, clients: int = 4, tokens: int = 64) -> Iterator[Steady]:
    """Send requests to the client Service of a deployment for as long as the block lasts."""
    bed = service.bed
    address = bed.kubectl_json("-n", service.namespace, "get", "service", service.name)["spec"][
        "clusterIP"
    ]
    with tempfile.TemporaryDirectory(prefix="steady-") as folder:
        stop, record = Path(folder) / "stop", Path(folder) / "seen"
        record.touch()
        made = Steady(record)
        places = (str(stop), str(record))
        argv = (sys.executable, __file__, address, *places, model, str(clients), str(tokens))
        errors: list[BaseException] = []

        def run() -> None:
            try:
                bed.node_exec(bed.node_names[0], *argv)
            except BaseException as error:  # noqa: BLE001 - told to the test below
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield made
        finally:
            stop.touch()
            thread.join()
        if errors:
            raise errors[0]
        made.seen += [Seen(**json.loads(line)) for line in record.read_text().splitlines()]


def _one(address: str, model: str, prompt: str, tokens: int) -> Seen:
    began, chunks = time.monotonic(), 0
    wish = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    body = json.dumps({**wish, "ignore_eos": True, "stream": True})
    connection = http.client.HTTPConnection(address, _PORT, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(300).decode(errors="replace")
            return Seen(began, time.monotonic(), 0, f"{response.status}: {text}")
        last = b""
        for line in response:
            if line.startswith(b"data: "):
                last = line.strip()
                chunks += 1
        if last != b"data: [DONE]":
            return Seen(began, time.monotonic(), chunks, f"the stream ends with {last[:200]!r}")
    except (OSError, http.client.HTTPException) as error:
        return Seen(began, time.monotonic(), chunks, repr(error))
    finally:
        connection.close()
    return Seen(began, time.monotonic(), chunks)


def main(words: list[str]) -> None:
    """Run the clients until the file appears."""
    address, stop, record, model, clients, tokens = words
    lock = threading.Lock()

    def client(number: int) -> None:
        count = 0
        while not Path(stop).exists():
            prompt = f"{number} {count}: a request that must be answered whatever happens meanwhile"
            seen = _one(address, model, prompt, int(tokens))
            count += 1
            with lock, Path(record).open("a") as lines:
                lines.write(json.dumps(asdict(seen)) + "\n")

    threads = [threading.Thread(target=client, args=(n,)) for n in range(int(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
