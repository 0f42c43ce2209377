"""Status, conditions and Events from what was observed and decided. Pure."""
