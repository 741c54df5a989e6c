"""What a job will do on machines that fail: how often to save, what a protection costs, how to scale.

``run()`` forecasts a job as it is configured, ``plan()`` looks for its best protection, ``what_if()`` plans it at many
sizes. A job is the name of a preset (``"mixtral-8x7b"``) or the path of a configuration (.toml); a cluster is the
name of a GPU (8 of them in a node; docs/planning.md has the rest), the path of a cluster (.toml), or a mapping of the tables
of one. Results are those of ``evermoe forecast --json`` and ``evermoe plan --json``.

``optimal_interval()`` and ``efficiency()`` are exact formulas: failures come as a Poisson process with a mean time between
them; one that hits a save or a restart costs what was done since, too. *Work* is training time between saves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Union, cast

from evermoe import _evermoe

Method = Literal["exact", "young", "daly", "daly_higher"]
Replacement = Literal["restart", "standby", "elastic"]
Recompute = Literal["auto", "none", "experts", "layer"]
Setting = Union[str, int, float, bool]
Cluster = Union[str, "os.PathLike[str]", Mapping[str, Mapping[str, Setting]]]


class Estimate(TypedDict):
    """A mean over simulated runs."""

    mean: float
    standard_error: float
    low_95: float
    high_95: float
    runs: int


class ScaleRow(TypedDict):
    """The best plan at one size. Where ``refused`` says why there is none, everything from step_seconds on is empty."""

    gpus: int
    nodes: int
    job_mtbf_seconds: float
    step_seconds: float
    strategy: str
    ettr: Estimate
    tokens_per_second: float
    spares: int
    spares_wanted: int
    downtime_seconds_per_day: float
    downtime_per_interruption_seconds: float
    host_bytes_per_gpu: float
    refused: str


def run(
    model: Union[str, "os.PathLike[str]"],
    cluster: Cluster,
    *,
    settings: Mapping[str, Setting] | None = None,
    failures: Union[str, "os.PathLike[str]"] = "",
    recovery: Union[str, "os.PathLike[str]"] = "",
    sequences: int = 0,
    tensor_parallel: int = 0,
    recompute: Recompute = "auto",
    replacement: Replacement = "standby",
    runs: int = 16,
    seed: int = 1,
) -> dict[str, Any]:
    """What the job will do, protected as it is configured.

    settings: keys of the configuration (``{"protection.strategy": "sparse"}``) or of the cluster.
    failures: ``"KEY=VALUE,..."`` of the cluster's [failures], or the path of a recorded failure trace (.csv), which is
      played once. replacement: of failed nodes. runs: simulated, from ``seed`` on.
    recovery: a profile of a job (``evermoe profile --job``), whose measured [recovery] takes the place of the cluster's.
    sequences: of one step, with a preset; 0: about 8192 tokens per GPU, so it grows with the cluster.
    tensor_parallel: GPUs of each lane, 0 to choose. recompute: activations that are computed again instead of kept.

    >>> forecast = run("gpt-moe-7.3b", {"cluster": {"nodes": 12, "spares": 2}}, runs=2)
    >>> 0.9 < forecast["estimates"]["ettr"]["mean"] < 1
    True
    """
    name, of_cluster = _named(cluster)
    wishes = (sequences, tensor_parallel, recompute)
    text = _evermoe.forecast_run(os.fspath(model), name, (os.fspath(failures), os.fspath(recovery)), of_cluster + _settings(settings), wishes, replacement, runs, seed)
    return cast(dict[str, Any], json.loads(text))


def plan(
    model: Union[str, "os.PathLike[str]"],
    cluster: Cluster,
    *,
    settings: Mapping[str, Setting] | None = None,
    failures: Union[str, "os.PathLike[str]"] = "",
    recovery: Union[str, "os.PathLike[str]"] = "",
    sequences: int = 0,
    tensor_parallel: int = 0,
    recompute: Recompute = "auto",
    copies: int = 2,
    window: int = 0,
    stall_share: float = 0.05,
    lost_share: float = 0.0,
    elastic: bool = True,
    runs: int = 8,
) -> dict[str, Any]:
    """The best protection, the best that ``today``'s runtime can run, the others that were simulated, and why.

    recovery, sequences, tensor_parallel, recompute: as of ``run()``.
    copies: wanted of each snapshot. window: steps of a sparse window, 0 to choose. stall_share: by which protection may
    lengthen a mean step. lost_share: of the tokens that may be lost; above 0 LOSSY protections take part.
    elastic: whether training on fewer nodes is acceptable. RuntimeError if nothing fits.
    """
    name, of_cluster = _named(cluster)
    wishes = (sequences, tensor_parallel, recompute)
    text = _evermoe.forecast_plan(
        os.fspath(model), name, (os.fspath(failures), os.fspath(recovery)), of_cluster + _settings(settings), wishes, copies, window, stall_share, lost_share, elastic, runs
    )
    return cast(dict[str, Any], json.loads(text))


def what_if(
    model: Union[str, "os.PathLike[str]"],
    cluster: Cluster,
    gpus: Iterable[int] | None = None,
    *,
    failures: str = "",
    recovery: Union[str, "os.PathLike[str]"] = "",
    runs: int = 8,
) -> list[ScaleRow]:
    """The best plan for each number of GPUs (8 to 131,072 if none are given): the batch grows with them, nodes fail as often.

    >>> [row["spares"] for row in what_if("mixtral-8x7b", "A100-80GB", [16384], runs=1)][0] > 10
    True
    """
    name, settings = _named(cluster)
    text = _evermoe.forecast_what_if(os.fspath(model), name, (failures, os.fspath(recovery)), settings, list(gpus or ()), runs)
    return cast(list[ScaleRow], json.loads(text))


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


@dataclass(frozen=True)
class Tier:
    """Where checkpoints go: peers' memory, a local disk, remote storage."""

    name: str
    save_s: float      # by which training stands still for a save
    restart_s: float   # detect, restart and load from here
    shortest_s: float  # the shortest work between two saves: how long one takes in the background, or one step


@dataclass(frozen=True)
class Failure:
    name: str
    mtbf_s: float
    survived_by: str  # the weakest tier that does


@dataclass(frozen=True)
class TierInterval:
    tier: str
    work_s: float  # between two saves
    every: int     # so many saves of the tier below that is in use; 1 for the weakest


@dataclass(frozen=True)
class TierPlan:
    intervals: list[TierInterval]  # of the tiers in use, weakest first
    waste: float                   # expected share of time that is lost, to first order
    reasons: list[str]


def tier_intervals(tiers: Sequence[Tier], failures: Sequence[Failure]) -> TierPlan:
    """How often to save to each of several tiers, weakest first, where failures differ in what they destroy.

    >>> plan = tier_intervals([Tier("peers", 0.5, 20, 2), Tier("storage", 30, 300, 120)],
    ...                       [Failure("node", 7200, "peers"), Failure("whole job", 864000, "storage")])
    >>> [interval.tier for interval in plan.intervals]
    ['peers', 'storage']
    """
    names = [tier.name for tier in tiers]
    for failure in failures:
        if failure.survived_by not in names:
            raise ValueError(f'{failure.name}: survived_by: "{failure.survived_by}" is not one of the tiers')
    intervals, waste, reasons = _evermoe.tier_intervals(
        [(tier.name, tier.save_s, tier.restart_s, tier.shortest_s) for tier in tiers],
        [(failure.name, failure.mtbf_s, names.index(failure.survived_by)) for failure in failures],
    )
    return TierPlan([TierInterval(names[tier], work, every) for tier, work, every in intervals], waste, reasons)


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(settings: Mapping[str, Setting] | None) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in (settings or {}).items()]


def _named(cluster: Cluster) -> tuple[str, list[str]]:
    """The name that a cluster begins with, and the settings that make it of that."""
    if not isinstance(cluster, Mapping):
        return os.fspath(cluster), []
    tables = {table: dict(keys) for table, keys in cluster.items()}
    name = str(tables.get("gpu", {}).pop("name", "A100-80GB"))
    return name, [f"{table}.{key}={_text(value)}" for table, keys in tables.items() for key, value in keys.items()]
