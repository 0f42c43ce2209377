"""Compares the contract's facts with the software that they are about.

    sources.lock -> sources: trees of vLLM, a release each, in the cache
    rules/*:  what operator/moriio_operator/contract says  <->  what a release's own code answers
    inside/*: what runs in other interpreters: vLLM's connector with stand-ins for what it imports,
              and vLLM's real command line

A difference is a row that names the release. `python -m oracle latest` looks at the newest one.
"""
