"""What the engine-cpu image needs and is too heavy to build twice: vLLM's environment and models.

`environment()` gives a folder that belongs at /opt/engine inside an engine's pod, `models()` one
with tiny models in it. Both live in the project's cache, named by a hash of what defines them,
and are built by the first caller.
"""

from engine_env.environment import environment
from engine_env.model import models

__all__ = ["environment", "models"]
