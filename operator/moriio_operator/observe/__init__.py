"""What was read from the cluster, read into what planners ask about. Pure."""
