"""vLLM with its MoRIIOConnector: arguments, environment, ports, rules by version, registration."""
