"""The only door to the Kubernetes API: a small client on dictionaries."""
