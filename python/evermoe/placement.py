"""Replicas of experts: how many, on which nodes, what they survive, and which tokens go where.

A *node* has a fixed number of *slots*, each of which holds one replica of an expert. A plan survives a failure if
every expert keeps a replica on a live node.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evermoe import _evermoe
from evermoe._integers import IntArray, integers

Method = Literal["mro_q", "mro", "spread", "compact"]


def allocate(loads: ArrayLike, nodes: int, slots: int, faults: int = 1) -> IntArray:
    """How many replicas each expert gets; they sum to ``nodes * slots``.

    Minimises the tokens of the busiest replica, then of the second busiest, and so on. Every expert gets at
    least ``faults`` replicas, or the greatest number that fits where that does not (at least one).

    loads: tokens by expert.
    Raises ValueError if there are more experts than slots.

    >>> allocate([0, 3, 5], nodes=2, slots=3)
    array([1, 2, 3])
    """
    replicas, _ = _evermoe.allocate(integers(loads, "loads", 1).tolist(), nodes, slots, faults)
    return np.array(replicas, dtype=np.int64)


def place(
    replicas: ArrayLike, nodes: int, slots: int, method: Method = "mro_q", faults: int = 0
) -> list[list[int]]:
    """By node: the experts it holds, ascending, as often as it has replicas of them.

    method: "mro_q" (maximum rank overlap with its last groups repaired; never worse than "mro"), "mro" (as
      Lazarus has it), or, for comparison, "spread" (round robin) and "compact" (as few nodes as possible).
    faults: with "mro_q", put every expert on at least so many distinct nodes; 0: as many as the least
      replicated expert can have.
    Raises ValueError unless every count is positive and they sum to ``nodes * slots``.

    >>> place([2, 2, 2], nodes=3, slots=2, method="mro")
    [[0, 1], [0, 1], [2, 2]]
    """
    return _evermoe.place(integers(replicas, "replicas", 1).tolist(), nodes, slots, method, faults)


def survival_curve(experts_of_nodes: Sequence[Sequence[int]], experts: int | None = None) -> NDArray[np.float64]:
    """The probability that the plan survives, by the number of failed nodes, 0 to all; every set equally likely.

    experts_of_nodes: as ``place()`` returns it.
    experts: how many there are; by default the highest id, plus one. One that is on no node is always lost.
    Raises RuntimeError for plans too tangled to count exactly (never those of "mro" and "mro_q").
    """
    rows = [integers(ids, "experts_of_nodes", 1).tolist() for ids in experts_of_nodes]
    if experts is None:
        experts = 1 + max((expert for row in rows for expert in row), default=-1)
    return np.array(_evermoe.survival(rows, experts))


def survival(experts_of_nodes: Sequence[Sequence[int]], failures: int, experts: int | None = None) -> float:
    """The exact probability that the plan survives ``failures`` failed nodes: ``survival_curve()`` at one place.

    >>> round(survival([[0, 1], [0, 1], [2, 2]], failures=1), 4)
    0.6667
    """
    curve = survival_curve(experts_of_nodes, experts)
    failures = operator.index(failures)
    if not 0 <= failures < len(curve):
        raise ValueError(f"failures: {failures} is not between 0 and {len(curve) - 1} nodes")
    return float(curve[failures])


def dispatch(tokens: ArrayLike, replicas: ArrayLike, hosts: ArrayLike | None = None) -> IntArray:
    """Which rank serves whose tokens: ``counts[expert, source, destination]``.

    Every token goes to exactly one rank, and t tokens on r replicas give each of them t / r, rounded down or up.
    A rank serves as many of its own tokens as this balance allows.

    tokens: ``[rank, expert]``, how many each rank routes to each expert.
    replicas: ``[rank, expert]``, how many replicas each rank holds.
    hosts: by rank, the host it is on; ranks of one host are preferred. None: each rank is a host of its own.
    Raises ValueError if an expert with tokens has no replica.
    """
    routed = integers(tokens, "tokens", 2)
    held = integers(replicas, "replicas", 2)
    if routed.shape != held.shape:
        raise ValueError(f"replicas: shape {held.shape}, but tokens have {routed.shape}")
    ranks, experts = routed.shape
    host_of = [] if hosts is None else integers(hosts, "hosts", 1).tolist()
    cells = _evermoe.dispatch(ranks, experts, routed.ravel().tolist(), held.ravel().tolist(), host_of)
    expert, source, destination, count = np.array(cells, dtype=np.int64).reshape(-1, 4).T
    counts = np.zeros((experts, ranks, ranks), dtype=np.int64)
    counts[expert, source, destination] = count
    return counts
