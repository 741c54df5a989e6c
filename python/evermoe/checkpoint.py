"""What a checkpoint captures: sparse windows (exact) and partial-expert selections (LOSSY)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from evermoe import _evermoe
from evermoe._integers import integers


def minimal_window(
    full_bytes: ArrayLike, compute_bytes: ArrayLike, budget_bytes: int
) -> list[tuple[int, int]]:
    """The shortest window whose every step copies at most ``budget_bytes``: by step, the operators [begin, end).

    Operators stand in capture order. A step copies its own operators in full and all later ones compute-only:
    ``sum(full_bytes[begin:end]) + sum(compute_bytes[end:])``. Every operator gets the latest step that a window
    of this length can give it.

    full_bytes, compute_bytes: by operator, ``0 <= compute <= full``.
    Raises ValueError that says how many bytes are missing if no window stays within the budget.

    >>> minimal_window([6, 6, 6, 6], [1, 1, 1, 1], 14)
    [(0, 2), (2, 4)]
    """
    return _evermoe.minimal_window(
        integers(full_bytes, "full_bytes", 1).tolist(),
        integers(compute_bytes, "compute_bytes", 1).tolist(),
        budget_bytes,
    )


def select_experts(
    k: int,
    owners: ArrayLike,
    *,
    method: Literal["sequential", "load_aware"] = "sequential",
    layers: int = 1,
    cursor: int = 0,
    unsaved: ArrayLike | None = None,
) -> list[list[int]]:
    """By layer, the ``k`` experts that a partial-expert checkpoint (PEC) saves, in the order of their choice.

    LOSSY: after a failure, experts that were not saved go back to older states. A full checkpoint at step 0 is
    needed, and cursor and counters may move only when a checkpoint is committed on all ranks.

    owners: by expert, the rank that saves it.
    method: "sequential" goes round the experts, spread evenly over the ranks, from ``cursor`` on (the sum of k
      over all committed checkpoints), for ``layers`` layers; every expert is saved once in ceil(experts / k)
      commits. "load_aware" takes the experts with most tokens in ``unsaved[layer, expert]`` (since they were last
      saved) over all layers at once, at most ceil(layers * k / ranks) per rank where the owners allow it.
    """
    ranks = integers(owners, "owners", 1).tolist()
    if method == "sequential":
        if unsaved is not None:
            raise ValueError("unsaved: only for method load_aware")
        return _evermoe.select_sequential(k, ranks, layers, cursor)
    if method != "load_aware":
        raise ValueError(f'method: "{method}" is not sequential or load_aware')
    if unsaved is None:
        raise ValueError("unsaved: method load_aware needs it")
    return _evermoe.select_load_aware(k, ranks, integers(unsaved, "unsaved", 2).tolist())


class LostTokens:
    """LOSSY: the tokens that a failure would take from partial-expert checkpoints, and those it has taken.

    A failure restarts training at the last committed checkpoint; an expert that it did not save comes back older and has
    lost the tokens since. The share of all tokens that is lost is PEC's PLT: ``lost_token_share()``.

    >>> lost = LostTokens(layers=1, experts=2)
    >>> lost.add_step([[10, 30]]); lost.snapshot(1); lost.commit(1, [[0]])
    >>> lost.exposed(), lost.fault(), lost.exposed()
    (30, 30, 0)
    """

    def __init__(self, layers: int, experts: int) -> None:
        self._counters = _evermoe.LostTokens(layers, experts)

    def add_step(self, tokens: ArrayLike) -> None:
        """Counts one step's ``tokens[layer, expert]``."""
        self._counters.add_step(integers(tokens, "tokens", 2).tolist())

    def snapshot(self, version: int) -> None:
        """A checkpoint's state is fixed now, after the steps counted so far. Versions ascend."""
        self._counters.snapshot(version)

    def commit(self, version: int, saved: Sequence[Sequence[int]]) -> None:
        """The checkpoint is durable on all ranks and holds ``saved``, by layer. Older snapshots are forgotten."""
        self._counters.commit(version, [list(layer) for layer in saved])

    def discard(self, version: int) -> None:
        """The checkpoint will never be committed."""
        self._counters.discard(version)

    def exposed(self) -> int:
        """What a failure now would lose."""
        return self._counters.exposed()

    def exposed_after(self, version: int, saved: Sequence[Sequence[int]]) -> int:
        """What a failure would lose after ``commit(version, saved)``."""
        return self._counters.exposed_after(version, [list(layer) for layer in saved])

    def fault(self) -> int:
        """A failure with restart at the last commit: what it loses."""
        return self._counters.fault()

    def unsaved(self) -> list[list[int]]:
        """By layer and expert, the tokens since its newest committed save; for ``select_experts(method="load_aware")``."""
        return self._counters.unsaved()


def lost_token_share(lost: int, total: int) -> float:
    """PLT. total: the tokens of the whole run times top-k, summed over the layers.

    >>> lost_token_share(30, 1000)
    0.03
    """
    return _evermoe.lost_token_share(lost, total)


@dataclass(frozen=True)
class DynamicK:
    """LOSSY: how many experts of a layer checkpoints save, and what failures have cost."""

    k: int
    lost: int = 0
    lost_under_k: int = 0  # since k was last changed


def k_after_fault(
    state: DynamicK, lost_now: int, *, experts: int, lost_tokens_max: int, k_first: int = 1
) -> tuple[DynamicK, str]:
    """After a failure that lost ``lost_now`` tokens, and why: k doubles if it has used up its share (PEC's Dynamic-K).

    >>> k_after_fault(DynamicK(k=1), 200, experts=8, lost_tokens_max=300)[0]
    DynamicK(k=2, lost=200, lost_under_k=0)
    """
    counted = (state.k, state.lost, state.lost_under_k)
    k, lost, under, reason = _evermoe.k_after_fault(counted, lost_now, experts, k_first, lost_tokens_max)
    return DynamicK(k, lost, under), reason


def guarded_k(
    state: DynamicK, exposed_after: Callable[[int], int], *, experts: int, lost_tokens_max: int, k_first: int = 1
) -> tuple[DynamicK, str]:
    """Before a checkpoint, and why: k doubles until a failure after it would keep the loss within ``lost_tokens_max``.

    exposed_after: what that failure would cost if k experts of each layer were saved; 0 for all of them. With this at every
    checkpoint the loss never exceeds the maximum; ``k_after_fault()`` alone does not promise that.

    >>> guarded_k(DynamicK(k=1), lambda k: 100 * (8 - k), experts=8, lost_tokens_max=450)[0].k
    4
    """
    counted = (state.k, state.lost, state.lost_under_k)
    k, lost, under, reason = _evermoe.k_guarded(counted, exposed_after, experts, k_first, lost_tokens_max)
    return DynamicK(k, lost, under), reason
