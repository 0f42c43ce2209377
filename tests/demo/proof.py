"""Three prompts through the router, and the proof that their KV cache crossed from node to node.

The proof comes from vLLM's own counters: how many prompt tokens the decode engine computed itself,
and how many it received over the connector. Read mode leaves the last token of a prompt to the
decode engine.
"""

from __future__ import annotations

from stage.service import Service
from stage.traffic import PromptTokens, complete, prompt_tokens, router_address

PROMPTS = (
    "Prefill on one node, decode on the other: ",
    "The cache is carried over by the MoRIIO connector, and ",
    "Nothing in this sentence is computed twice, because ",
)
_TOKENS = 16


def ask(service: Service) -> PromptTokens:
    """Send the prompts, print the answers, and count where the decode engine got the tokens from.

    Raises:
        AssertionError: a prompt is not answered.
    """
    address = router_address(service)
    (decode,) = service.pods("decode")
    before = prompt_tokens(decode)
    for prompt in PROMPTS:
        answer = complete(address, prompt, tokens=_TOKENS)
        if answer.status != 200:
            raise AssertionError(f"HTTP {answer.status}: {answer.text}")
        print(f"  {answer.prompt_tokens:3d} prompt tokens  {prompt!r}")
        print(f"  {answer.completion_tokens:3d} tokens         {answer.text!r}\n")
    return prompt_tokens(decode) - before


def holds(tokens: PromptTokens) -> bool:
    """Return whether all but at most one token per request came over the connector."""
    expected = sum(len(prompt) for prompt in PROMPTS)  # the model's tokens are bytes
    return tokens.local_compute <= len(PROMPTS) and tokens.all >= expected
