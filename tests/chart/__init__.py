"""Tests of the chart as helm renders it, without a cluster."""
