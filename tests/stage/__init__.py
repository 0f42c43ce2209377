"""What demo and cluster tests share: a bed that can serve, the chart on it, and its users."""
