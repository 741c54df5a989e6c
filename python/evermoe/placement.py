"""Replicas of experts: how many, on which nodes, what they survive, and which tokens go where.

A *node* has a fixed number of *slots*, each of which holds one replica of an expert. A plan survives a failure if
every expert keeps a replica on a live node.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

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

    method: "mro_q" (maximum rank overlap with its last groups repaired), "mro" (as Lazarus has it), or, for
      comparison, "spread" (round robin) and "compact" (as few nodes as possible).
    faults: with "mro_q", put every expert on at least so many distinct nodes, so that fewer failures never lose
      one; 0: as many as the least replicated expert can have. Where that takes other groups than the best, many
      failures are survived less often, and some numbers of them less often than by "mro" (5 experts of 3 replicas
      on 5 nodes survive any 2 failures, but 3 of them with probability 0.5 instead of 0.6). With ``faults=1``
      "mro_q" is never worse than "mro", whatever the number of failures.
    Raises ValueError unless every count is positive and they sum to ``nodes * slots``.

    >>> place([2, 2, 2], nodes=3, slots=2, method="mro")
    [[0, 1], [0, 1], [2, 2]]
    """
    return _evermoe.place(integers(replicas, "replicas", 1).tolist(), nodes, slots, method, faults)


def survival_curve(experts_of_nodes: Sequence[Sequence[int]], experts: int | None = None) -> NDArray[np.float64]:
    """The probability that the plan survives, by the number of failed nodes, 0 to all; every set equally likely.

    experts_of_nodes: as ``place()`` returns it.
    experts: how many there are; by default the highest id, plus one. One that is on no node is always lost.
    Raises RuntimeError for plans with too many combinations to count exactly (never those of "mro" and "mro_q").
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


class Transfer(NamedTuple):
    """One expert's state on its way. In a round no node sends or receives more than one."""

    round: int
    source: int
    destination: int
    expert: int


class Fetch(NamedTuple):
    """What no live node holds: it must come from a snapshot or a checkpoint."""

    expert: int
    node: int


@dataclass(frozen=True)
class Migration:
    """How a placement becomes another one."""

    transfers: list[Transfer]
    unavailable: list[Fetch]
    experts_of_nodes: list[list[int]]  # afterwards, by node

    @property
    def rounds(self) -> int:
        return 1 + max((transfer.round for transfer in self.transfers), default=-1)


def migration(
    held: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]], *, keeps_nodes: bool = False
) -> Migration:
    """Who sends which expert to whom, and when, so that nodes which hold ``held`` come to hold ``wanted``.

    Every node fetches what it shall hold and does not. The busiest sender sends as little as possible, and there are as
    many rounds as the busiest sender or receiver has transfers: no schedule with these sources is shorter.

    held: by node, the experts it has; nothing for a node that just joined. wanted: as ``place()`` returns it.
    keeps_nodes: node n of ``wanted`` is node n; otherwise the nodes of the plan are given to those that hold most of them.

    >>> moved = migration([[0, 1], [0, 1], []], [[1, 2], [0, 1], [0, 1]])
    >>> moved.experts_of_nodes, moved.transfers, moved.unavailable
    ([[0, 1], [0, 1], [1, 2]], [Transfer(round=0, source=0, destination=2, expert=1)], [Fetch(expert=2, node=2)])
    """
    now, then = ([integers(ids, name, 1).tolist() for ids in rows] for name, rows in (("held", held), ("wanted", wanted)))
    transfers, unavailable, experts_of_nodes = _evermoe.migration(now, then, keeps_nodes)
    return Migration([Transfer(*one) for one in transfers], [Fetch(*one) for one in unavailable], experts_of_nodes)


def slowdown(experts_of_nodes: Sequence[Sequence[int]], loads: ArrayLike) -> float:
    """The busiest node's load over the mean, if each replica of an expert gets the same part of its load: at least 1.

    >>> slowdown([[0, 1], [0, 2]], [4, 1, 3])
    1.25
    """
    rows = [integers(ids, "experts_of_nodes", 1).tolist() for ids in experts_of_nodes]
    return _evermoe.slowdown(rows, [float(load) for load in np.asarray(loads, dtype=np.float64)])


@dataclass(frozen=True)
class RebalanceState:
    """What a decision leaves for the next one."""

    moved: int = 0  # step of the last move
    count: int = 0  # evaluations that counted for moving


@dataclass(frozen=True)
class RebalanceDecision:
    move: bool
    state: RebalanceState
    reason: str


def decide_rebalance(
    now: int,
    state: RebalanceState,
    *,
    slowdown_now: float,
    slowdown_after: float,
    balanced_s: float,
    migration_s: float,
    gain_start: float = 1.10,
    gain_stop: float = 1.05,
    evaluations: int = 2,
    pause_steps: int = 100,
    payback_steps: int = 500,
) -> RebalanceDecision:
    """Whether experts should move now, at step ``now``, to a plan with another slowdown.

    balanced_s: seconds of a step's expert work at slowdown 1. migration_s: seconds for which training would wait.
    A gain (slowdown_now / slowdown_after) of gain_start counts for moving, one below gain_stop starts the count anew;
    ``evaluations`` must have counted, ``pause_steps`` passed since the last move, and the migration must have paid for
    itself after ``payback_steps``.
    """
    move, moved, count, reason = _evermoe.rebalance(
        now, state.moved, state.count, slowdown_now, slowdown_after, balanced_s, migration_s, gain_start, gain_stop, evaluations, pause_steps, payback_steps
    )
    return RebalanceDecision(move, RebalanceState(moved, count), reason)
