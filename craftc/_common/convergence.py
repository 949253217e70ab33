"""What the passes of CRAFT and DP-means share: the walk over the rows that may open a cluster, and the loop until nothing moves.

A pass equals the word-for-word loop of the papers: rows against the clusters that existed before it in parallel; then a serial walk over
the few rows dear enough to open one, each newcomer shown to the rows behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Literal, Protocol

from craftc._kernels import parallel as _build

State = Literal["moving", "settled", "cycling"]


class Openings(Protocol):
    """What the walk needs to know of a pass. Rows are named by their place in the order of the walk."""

    def may_open(self) -> bool:
        """Whether the cap leaves room."""

    def next_candidate(self, start: int, stop: int) -> int:
        """First row of [start, stop) that may open a cluster, or -1."""

    def open_at(self, row: int, stop: int) -> None:
        """The row opens a cluster, which is shown to the rows behind it up to `stop`."""

    def show_all(self, start: int, stop: int) -> None:
        """Show all newcomers of this pass to rows that have seen none."""


def open_in_order(openings: Openings, n: int, window: int) -> None:
    """The serial walk: each row dearer than its limit opens a cluster, which the rows behind it see.

    Rows are taken by windows that double as long as nothing opens: a newcomer is shown at once to the rest of its window, and to
    the windows behind it together with its fellows.

    Parameters
    ----------
    openings : Openings
    n : int
        Rows.
    window : int
        Rows of the first window, and of every one after a window in which a cluster opened.
    """
    start, size, opened = 0, window, False
    while start < n:
        stop = min(start + size, n)
        if opened:
            openings.show_all(start, stop)
        first = row = openings.next_candidate(start, stop) if openings.may_open() else -1
        while row >= 0:
            openings.open_at(row, stop)
            opened = True
            row = openings.next_candidate(row + 1, stop) if openings.may_open() else -1
        start, size = stop, 2 * size if first < 0 else window


def until_settled(
    step: Callable[[], tuple[State, float]],
    path: list[float],
    max_iter: int,
    *,
    slack: Callable[[float], float] | None = None,
    on_pass: Callable[[int, float], None] | None = None,
    stop: Event | None = None,
) -> tuple[int, bool]:
    """Passes until nothing moves; returns (passes made, whether they ended by themselves).

    Parameters
    ----------
    step : callable
        One pass; returns its state and the objective after it.
    path : list of float
        Gets the objectives.
    max_iter : int
    slack : callable, optional
        What rounding may add to an objective; None: the objective may rise. A debug build asserts that it does not.
    on_pass : callable, optional
        Told (pass, objective).
    stop : Event, optional
        Set: give up.
    """
    for n_iter in range(1, max_iter + 1):
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        state, objective = step()
        if _build.debug() and slack is not None and path and objective > path[-1] + slack(path[-1]):
            raise AssertionError(f"the objective rose from {path[-1]!r} to {objective!r}")
        path.append(objective)
        if on_pass:
            on_pass(n_iter, objective)
        if state != "moving":
            return n_iter, state == "settled"
    return max_iter, False
