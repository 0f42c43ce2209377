"""What vLLM, its MoRIIO connector and vllm-router ask for: keys, ports, limits and timeouts.

Facts about others' software stand here with their source and nowhere else, so that a new version
of theirs is a change in one folder.
"""
