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
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, Union, cast

from evermoe import _evermoe

Method = Literal["exact", "young", "daly", "daly_higher"]
Replacement = Literal["restart", "standby", "elastic"]
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
    replacement: Replacement = "standby",
    runs: int = 16,
    seed: int = 1,
) -> dict[str, Any]:
    """What the job will do, protected as it is configured.

    settings: keys of the configuration (``{"protection.strategy": "sparse"}``) or of the cluster.
    failures: ``"KEY=VALUE,..."`` of the cluster's [failures], or the path of a recorded failure trace (.csv), which is
      played once. replacement: of lost nodes. runs: simulated, from ``seed`` on.

    >>> forecast = run("gpt-moe-7.3b", {"cluster": {"nodes": 12, "spares": 2}}, runs=2)
    >>> 0.9 < forecast["estimates"]["ettr"]["mean"] < 1
    True
    """
    name, of_cluster = _named(cluster)
    text = _evermoe.forecast_run(os.fspath(model), name, os.fspath(failures), of_cluster + _settings(settings), replacement, runs, seed)
    return cast(dict[str, Any], json.loads(text))


def plan(
    model: Union[str, "os.PathLike[str]"],
    cluster: Cluster,
    *,
    settings: Mapping[str, Setting] | None = None,
    failures: Union[str, "os.PathLike[str]"] = "",
    copies: int = 2,
    window: int = 0,
    stall_share: float = 0.05,
    lost_share: float = 0.0,
    elastic: bool = True,
    runs: int = 8,
) -> dict[str, Any]:
    """The best protection, the best that ``today``'s runtime can run, the others that were simulated, and why.

    copies: wanted of each snapshot. window: steps of a sparse window, 0 to choose. stall_share: by which protection may
    lengthen a mean step. lost_share: of the tokens that may be lost; above 0 LOSSY protections take part.
    elastic: whether training on fewer nodes is acceptable. RuntimeError if nothing fits.
    """
    name, of_cluster = _named(cluster)
    text = _evermoe.forecast_plan(
        os.fspath(model), name, os.fspath(failures), of_cluster + _settings(settings), copies, window, stall_share, lost_share, elastic, runs
    )
    return cast(dict[str, Any], json.loads(text))


def what_if(
    model: Union[str, "os.PathLike[str]"],
    cluster: Cluster,
    gpus: Iterable[int] | None = None,
    *,
    failures: str = "",
    runs: int = 8,
) -> list[ScaleRow]:
    """The best plan for each number of GPUs (8 to 131,072 if none are given): the batch grows with them, nodes fail as often.

    >>> [row["spares"] for row in what_if("mixtral-8x7b", "A100-80GB", [16384], runs=1)][0] > 10
    True
    """
    name, settings = _named(cluster)
    text = _evermoe.forecast_what_if(os.fspath(model), name, failures, settings, list(gpus or ()), runs)
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
