"""Settings of the unit tests: hypothesis finds the same examples each time, on any machine."""

import logging
import os

import structlog
from hypothesis import HealthCheck, settings

# `make test-long` looks at more of them.
TIMES = int(os.environ.get("MORIIO_TEST_EXAMPLES", "1"))

settings.register_profile(
    "unit",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60 * TIMES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unit")

# What is logged is no part of what these tests state, and a pass logs a lot.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
