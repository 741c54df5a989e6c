"""How long to train between two checkpoints that stop training while they are saved.

Failures come as a Poisson process with a mean time between them; one that hits a save or a restart costs what was
done since, too. *Work* is training time between saves.
"""

from __future__ import annotations

from typing import Literal

from evermoe import _evermoe

Method = Literal["exact", "young", "daly", "daly_higher"]


def optimal_interval(cost_s: float, mtbf_s: float, restart_s: float = 0, method: Method = "exact") -> float:
    """Seconds of work between two saves that leave the largest share of wall time to training.

    cost_s: seconds that one save stops training. mtbf_s: mean seconds between failures of the job.
    restart_s: seconds to detect, restart and load; part of ``efficiency()``, it does not move the optimum.
    method: "exact" (by Lambert's function), or for comparison "young", "daly" (first order; 0 where its formula
      is negative) and "daly_higher".

    >>> round(optimal_interval(120, 7593.75), 2)
    1271.21
    """
    return _evermoe.optimal_interval(cost_s, mtbf_s, restart_s, method)


def efficiency(work_s: float, cost_s: float, mtbf_s: float, restart_s: float = 0) -> float:
    """The exact share of wall time that remains as training with ``work_s`` seconds of work between saves."""
    return _evermoe.efficiency(work_s, cost_s, mtbf_s, restart_s)
