"""The planner of EverMoE: where experts live, what a checkpoint holds, how often to save.

The same C++ functions that a training job decides with, for arrays of numpy. Nothing here starts a job or
touches a GPU. Bad input raises ValueError with one line that names the argument.
"""

from evermoe import checkpoint, forecast, placement

__all__ = ["checkpoint", "forecast", "placement"]
__version__ = "0.1.0"
