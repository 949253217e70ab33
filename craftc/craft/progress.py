"""Progress of a fit: the share done, the time left, and the lines that `verbose` prints."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock

_INTERVAL = 0.1  # seconds between two calls of a callback, at least
_PASSES = 20  # passes after which half of a part of a stage is assumed done
_FIRST_ESTIMATE = 0.5  # seconds before the time left is estimated


@dataclass(frozen=True)
class Progress:
    """How far a fit of `CRAFT` is; the argument of its `callback`.

    Attributes
    ----------
    share : float in [0, 1]
        Estimated share of the work done. It never falls, begins with 0 and ends with 1.
    elapsed_s : float
        Seconds since the fit began.
    remaining_s : float or None
        Estimated seconds left; None at the beginning, when nothing is known.
    stage : str
        The present part of the work, for example "starts" or "merge path".
    n_clusters : int
        Clusters of the partition that was computed last.
    objective : float
        Its objective J in nats; NaN before the first.

    Examples
    --------
    >>> from craftc import CRAFT
    >>> from craftc.datasets import load_heart
    >>> seen = []
    >>> model = CRAFT(random_state=0).fit(load_heart().data, callback=seen.append)
    >>> seen[0].share, seen[-1].share, seen[-1].stage
    (0.0, 1.0, 'done')
    """

    share: float
    elapsed_s: float
    remaining_s: float | None
    stage: str
    n_clusters: int
    objective: float


class ProgressMeter:
    """Estimates the share done over the stages of a fit, and reports it; the results do not depend on it.

    `callback` is called with a `Progress` at most ten times a second, and first and last; calls from several
    threads come one at a time, and what it raises ends the fit. `verbose` 1: print a line per start and
    stage; 2: also one per pass.
    """

    def __init__(self, callback: Callable[[Progress], object] | None = None, verbose: int = 0) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of one argument, got {callback!r}.")
        self._callback, self._verbose = callback, verbose
        self._lock = Lock()
        self._began, self._last = time.monotonic(), -math.inf
        self._failure: BaseException | None = None
        self._share, self._stage, self._n_clusters, self._objective = 0.0, "reading", 1, math.nan
        self._before: dict[str, tuple[float, float]] = {}  # share before every stage, and its own
        self._n_parts, self._half, self._from = 1, _PASSES, 0
        self._done, self._passes = 0, defaultdict[int, int](int)
        self._report()

    def plan(self, **stages: float) -> None:
        """The stages of a fit in their order, with the work expected of each, in any unit.

        A later plan, of another search of the same fit, divides the share that is left.
        """
        done, of_work = self._share, (1.0 - self._share) / sum(stages.values())
        for stage, work in stages.items():
            self._before[stage] = done, work * of_work
            done += work * of_work

    def begin(self, stage: str, n_parts: int = 1, *, half: int = _PASSES, n_clusters: int = 0) -> None:
        """Begin a planned stage, with an underscore for a blank; the work of the stages before it is done.

        `n_parts` are parts of about the same work, for example starts; after `half` passes half of a part is
        done. `n_clusters`: clusters at the beginning of a stage that ends with one cluster.
        """
        with self._lock:
            self._stage, self._n_parts, self._half, self._from = stage, n_parts, half, n_clusters
            self._done = 0
            self._passes.clear()
        self._report()

    def of_part(self, part: int) -> Callable[[int, int, float], None] | None:
        """What a search calls with (passes, number of clusters, objective) after its passes; None if nothing
        is reported.
        """
        return partial(self._passes_made, part) if self._callback is not None or self._verbose > 1 else None

    def _passes_made(self, part: int, n_passes: int, n_clusters: int, objective: float) -> None:
        with self._lock:
            self._passes[part] += n_passes
            self._n_clusters, self._objective = n_clusters, objective
            if self._verbose > 1:
                start = (
                    f"start {part + 1}"
                    if self._n_parts > 1 and self._stage == "starts"
                    else self._stage.replace("_", " ")
                )
                print(
                    f"  {start}, pass {self._passes[part]}: {n_clusters} clusters, objective {objective:.6g}"
                )
        self._report()

    def part_done(self, part: int, n_clusters: int, objective: float, n_passes: int | None = None) -> None:
        """A part of the present stage is done; a start has a line of its own."""
        with self._lock:
            self._done += 1
            self._passes.pop(part, None)
            self._n_clusters, self._objective = n_clusters, objective
            if self._verbose and n_passes is not None and self._stage == "starts":
                number = f"{part + 1}/{self._n_parts}"
                print(
                    f"CRAFT start {number}: {n_clusters} clusters, objective {objective:.6g}, {n_passes} "
                    "passes"
                )
        self._report()

    def stage_done(self, n_clusters: int, objective: float) -> None:
        """The present stage is done."""
        with self._lock:
            self._done = self._n_parts
            self._n_clusters, self._objective = n_clusters, objective
            if self._verbose:
                print(
                    f"CRAFT {self._stage.replace('_', ' ')}: {n_clusters} clusters, objective {objective:.6g}"
                )
        self._report()

    def finish(self, n_clusters: int, objective: float) -> None:
        """The fit is done: share 1."""
        self._stage, self._n_clusters, self._objective, self._share = "done", n_clusters, objective, 1.0
        self._report(always=True)

    def _fraction(self) -> float:
        """The share of the present stage that is done."""
        if self._from > 1:  # every step merges two clusters, and costs passes with the clusters that are left
            return 1.0 - ((min(self._n_clusters, self._from) - 1) / (self._from - 1)) ** 2
        running = sum(passes / (passes + self._half) for passes in self._passes.values())
        return min((self._done + running) / self._n_parts, 1.0)

    def _report(self, always: bool = False) -> None:
        if self._callback is None:
            return
        with self._lock:
            if self._failure is not None:  # of another thread
                raise self._failure
            before, own = self._before.get(self._stage, (self._share, 0.0))
            self._share = max(self._share, min(before + own * self._fraction(), 1.0))
            now = time.monotonic()
            if now - self._last < _INTERVAL and not always:
                return
            self._last, elapsed = now, now - self._began
            known = self._share > 0.0 and elapsed >= _FIRST_ESTIMATE
            left = elapsed * (1.0 - self._share) / self._share if known or self._share == 1.0 else None
            stage = self._stage.replace("_", " ")
            try:
                self._callback(Progress(self._share, elapsed, left, stage, self._n_clusters, self._objective))
            except BaseException as failure:
                self._failure = failure
                raise
