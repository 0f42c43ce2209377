"""Tests of the pure core and of each edge alone: no cluster, no root, no clock."""
