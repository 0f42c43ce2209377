"""Stacks: an engine together with the connector that carries its KV cache, one folder per pair.

`stack` says what a stack is asked for, `table` chooses one by `spec.connector.type`; all else of
the operator goes through that object, and knows no flag, port name, probe or log line of any.
"""
