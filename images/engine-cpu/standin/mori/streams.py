"""Gives a torch without GPU the two calls that the connector's WRITE path makes on a GPU stream.

The connector records an event after a layer and waits for it before it sends the layer. On a CPU
the layer is computed when the call returns, so an event that is always done is a correct one.
"""

import importlib.util


class HostEvent:
    """An event on a stream that has no backlog."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        """Take and ignore what torch.cuda.Event takes."""

    def record(self, stream: object = None) -> None:
        """Nothing is pending."""

    def synchronize(self) -> None:
        """Nothing is pending."""

    def query(self) -> bool:
        """Whether the work before the event is done."""
        return True


def _current_stream(device: object = None) -> None:
    del device


def install() -> None:
    """Replace torch's stream calls, unless there is a GPU or no torch at all."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch  # type: ignore[import-not-found]  # noqa: PLC0415 - tests have none

    if not torch.cuda.is_available():
        torch.cuda.Event = HostEvent
        torch.cuda.current_stream = _current_stream
