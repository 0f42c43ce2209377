"""What a request carries from the router to both of its engines, so that they find each other.

Sources: vllm-router 0.1.17; vLLM 0.20.0 to 0.33.0, `moriio_common.get_peer_zmq_from_request_id` and
`parse_moriio_zmq_address`.
"""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"[0-9a-f]{32}")


def zmq_address(host: str, handshake: int, notify: int) -> str:
    """Give an engine's address as peers read it: the first ports of its ranks."""
    return f"host:{host},handshake:{handshake},notify:{notify}"


def request_id(prefill_zmq: str, decode_zmq: str, suffix: str) -> str:
    """Give the value of `X-Request-Id`, from which each side reads the address of the other.

    Raises:
        ValueError: the suffix is not 32 hexadecimal digits, which vLLM would not recognise.
    """
    if _SUFFIX.fullmatch(suffix) is None:
        raise ValueError(f"{suffix!r} is not 32 hexadecimal digits in lower case")
    return f"___prefill_addr_{prefill_zmq}___decode_addr_{decode_zmq}_{suffix}"
