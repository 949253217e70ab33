"""Passes until convergence, and the serial part of a pass: the rows that may open a cluster, visited in
order.

A pass of CRAFT or DP-means equals the papers' sequential loop. First all rows are compared with the clusters
that existed before the pass, in parallel; then the few rows whose cost exceeds their threshold are visited in
order. Each may open a cluster, and later rows are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Literal, Protocol

from craftc._common.typing import PassCallback
from craftc._kernels import parallel as _build

State = Literal["moving", "converged", "cycling"]


class RowVisitor(Protocol):
    """What :func:`visit_in_order` needs of a pass.

    A row is named by its position in the order of the visits.
    """

    def may_open(self) -> bool:
        """Whether the maximal number of clusters leaves room for one more."""

    def next_candidate(self, start: int, stop: int) -> int:
        """First row of [start, stop) that may open a cluster, or -1."""

    def open_at(self, row: int, stop: int) -> None:
        """Open a cluster at the row and compare the rows behind it, up to `stop`, with the new cluster."""

    def compare_all(self, start: int, stop: int) -> None:
        """Compare rows with all clusters that this pass has opened before."""


def visit_in_order(visitor: RowVisitor, n: int, window: int) -> None:
    """Let each row whose cost exceeds its threshold open a cluster, in order.

    Rows are taken by windows that double as long as no cluster opens. A new cluster is compared at once with
    the rest of its window, and with later windows together with the other new clusters.

    `n`: rows. `window`: rows of the first window, and of every window after one in which a cluster
    opened.
    """
    start, size, opened = 0, window, False
    while start < n:
        stop = min(start + size, n)
        if opened:
            visitor.compare_all(start, stop)
        first = row = visitor.next_candidate(start, stop) if visitor.may_open() else -1
        while row >= 0:
            visitor.open_at(row, stop)
            opened = True
            row = visitor.next_candidate(row + 1, stop) if visitor.may_open() else -1
        start, size = stop, 2 * size if first < 0 else window


def iterate_until_converged(
    step: Callable[[], tuple[State, float]],
    path: list[float],
    max_iter: int,
    *,
    slack: Callable[[float], float] | None = None,
    callback: PassCallback | None = None,
    stop: Event | None = None,
) -> tuple[int, bool]:
    """Passes until nothing moves; returns (passes, whether they converged).

    `step`: one pass; returns its state and the objective after it. `path`: the objective after every pass
    is appended. `slack`: what rounding may add to an objective; None: the objective may rise. A debug
    build asserts that it does not. `callback`: called with (pass, objective) after every pass. `stop`:
    once set, the next pass raises KeyboardInterrupt.
    """
    for n_iter in range(1, max_iter + 1):
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        state, objective = step()
        if _build.debug() and slack is not None and path and objective > path[-1] + slack(path[-1]):
            raise AssertionError(f"the objective rose from {path[-1]!r} to {objective!r}")
        path.append(objective)
        if callback:
            callback(n_iter, objective)
        if state != "moving":
            return n_iter, state == "converged"
    return max_iter, False
