"""The race of several starts: all are followed until they have roughly converged, the one that is then ahead to the end."""

from __future__ import annotations

from collections.abc import Iterator

from craftc.mixture.variational import Ascent, MixtureResult


class Race:
    """Starts that take turns on some threads. A thread without a start of its own continues the one that is ahead so far.

    That work is lost if a later start passes it; the result does not depend on it.

    Parameters
    ----------
    n_starts : int
    side : int
        Threads that take turns.
    """

    def __init__(self, n_starts: int, side: int) -> None:
        self.n_starts, self.side = n_starts, side
        self.ascents: dict[int, Ascent] = {}
        self._elbo: dict[int, float] = {}  # of the starts that have roughly converged
        self._endings: dict[int, Iterator[None]] = {}
        self._continued: dict[int, int] = {}  # by which start's turns

    @property
    def ahead(self) -> int:
        """The start with the largest ELBO of those that have roughly converged, the first of those that tie."""
        elbo = dict(self._elbo)  # other threads add to it
        return max(sorted(elbo), key=elbo.__getitem__)

    def follow(self, start: int, ascent: Ascent) -> Iterator[None]:
        """Turns of a start, until it has roughly converged."""
        self.ascents[start] = ascent
        yield from ascent.rough()
        ascent.model.pause()
        self._endings[start] = ascent.ending()
        self._elbo[start] = ascent.elbo

    def continue_ahead(self, start: int) -> Iterator[None]:
        """Further turns of a start that has roughly converged: for the one that is ahead, while there are more threads than starts left."""
        ahead, left = self.ahead, self.n_starts - len(self._elbo)
        if not 0 < left < self.side or self._continued.setdefault(ahead, start) != start:
            return
        for _ in self._endings[ahead]:
            if len(self._elbo) == self.n_starts or self.ahead != ahead:
                break
            yield
        self.ascents[ahead].model.pause()

    def finish(self, n_threads: int) -> MixtureResult:
        """The start that is ahead, continued to the end."""
        best = self.ahead
        self.ascents[best].model.n_threads = n_threads
        for _ in self._endings[best]:
            pass
        return self.ascents[best].result()
