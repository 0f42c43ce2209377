"""Stacks: an engine together with the connector that carries its KV cache, one folder per pair."""
