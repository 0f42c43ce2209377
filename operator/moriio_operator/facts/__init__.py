"""What vLLM, its router and MORI ask for, by version, in tables with sources; imports nothing."""
