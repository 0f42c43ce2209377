"""The process: settings, command line, and kopf as the source of events."""
