"""Objects from plans: one module a child kind, owner in, object out. Pure and deterministic."""
