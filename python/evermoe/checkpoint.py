"""What a checkpoint captures: sparse windows (exact) and partial-expert selections (LOSSY)."""

from __future__ import annotations

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
