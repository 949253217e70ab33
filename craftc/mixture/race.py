"""The race of several starts: all until rough convergence, the one ahead to the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

from craftc._kernels.team import Team
from craftc.mixture.variational import Ascent, MixtureResult


class Race:
    """Starts that take turns on some threads. A thread without a start helps the kernels of the last one,
    then those of the end.

    `team`: of as many threads, or of one: nobody helps. `stop`: set if the race is interrupted, so that
    starts end early.
    """

    def __init__(self, n_threads: int, team: Team, stop: Event) -> None:
        self.n_threads, self.team, self.stop = n_threads, team, stop
        self.ascents: dict[int, Ascent] = {}
        self._elbo: dict[int, float] = {}  # of the starts that have roughly converged
        self._waiting: deque[Iterator[None]] = deque()
        self._busy = n_threads  # threads that take turns
        self._lock, self._one_left, self._over = Lock(), Event(), Event()
        self._results: list[MixtureResult] = []

    @property
    def ahead(self) -> int:
        """The start with the largest ELBO among the roughly converged; ties: the first."""
        return max(sorted(self._elbo), key=self._elbo.__getitem__)

    def follow(self, start: int, ascent: Ascent) -> Iterator[None]:
        """Turns of a start, until it has roughly converged."""
        self.ascents[start] = ascent
        for _ in ascent.rough():
            yield
            if self._one_left.is_set():
                ascent.model.share(self.team)
        with self._lock:
            self._elbo[start] = ascent.elbo
            for behind in self._elbo.keys() - {self.ahead}:
                self.ascents[behind].model.pause()

    def run(self, starts: Iterable[Iterator[None]]) -> MixtureResult:
        """The start that is ahead after the turns of all, continued to the end."""
        self._waiting.extend(starts)
        with ThreadPoolExecutor(self.n_threads) as pool:
            try:
                others = [pool.submit(self._work_elsewhere) for _ in range(self.n_threads - 1)]
                self._work()
            except BaseException:
                self.stop.set()
                self._end()
                raise
            for other in others:
                other.result()
        return self._results[0]

    def _work(self) -> None:
        """Turns of starts while any waits.

        The last thread to leave continues the start that is ahead; the others help.
        """
        try:
            while (turns := self._next()) is not None:
                for _ in turns:
                    self._wait(turns)
                    break
            if self._leave() == 0:
                best = self.ascents[self.ahead]
                if self.n_threads > 1:
                    best.model.share(self.team)
                self._results.append(best.finish())
                self._end()
            else:
                self._one_left.wait()
                self.team.help()
        except BaseException:
            self._end()
            raise

    def _work_elsewhere(self) -> None:
        self.team.leave()
        self._work()

    def _next(self) -> Iterator[None] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self._over.is_set() else None

    def _wait(self, turns: Iterator[None]) -> None:
        """Several threads take turns; one thread continues the start whose rows are in its caches."""
        if self.n_threads > 1:
            self._waiting.append(turns)
        else:
            self._waiting.appendleft(turns)

    def _leave(self) -> int:
        """The number of threads that still take turns, without this one."""
        with self._lock:
            self._busy -= 1
            if self._busy == 1:
                self._one_left.set()
            return self._busy

    def _end(self) -> None:
        """Nobody waits any longer, for turns or as a helper."""
        self._over.set()
        self._one_left.set()
        self.team.end()
