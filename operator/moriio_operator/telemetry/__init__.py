"""Logs, metrics and the small health server, for the operator and the registrar alike."""
