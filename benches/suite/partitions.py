"""Fits of tables in partitions of this process."""

from __future__ import annotations

import time
from typing import Any

from .tools import Imports, quietly

new = Imports()
with new:
    from craftc import CRAFT
    from craftc.distributed import Partitions as Parts
    from craftc.distributed import engine as engines

    from .common import frame
setup = new.setup

COLUMNS = 8  # of each kind


class Partitions:
    """A fit of one part, or of several; processor time."""

    params: Any = ([20_000, 1_000_000], [1, 7])
    param_names = ("rows", "partitions")
    timer = time.process_time

    def setup(self, n: int, n_parts: int) -> None:
        whole = frame(n, COLUMNS, COLUMNS)
        self.parts = Parts([whole[i * n // n_parts : (i + 1) * n // n_parts] for i in range(n_parts)])

    def time_fit(self, n: int, n_parts: int) -> None:
        fit(self.parts)

    def peakmem_fit(self, n: int, n_parts: int) -> None:
        fit(self.parts)

    def track_objective(self, n: int, n_parts: int) -> float:
        """Nats; that of the table in memory."""
        return float(fit(self.parts).objective_)

    def track_n_rounds(self, n: int, n_parts: int) -> int:
        """Visits of all partitions, which do not depend on their number."""
        return counted_rounds(lambda: fit(self.parts))

    track_objective.unit = "nats"


def counted_rounds(run: Any) -> int:
    """Rounds of the engine of a fit."""
    made = []
    init = engines.Engine.__init__

    def recorded(engine: Any, *args: Any, **options: Any) -> None:
        made.append(engine)
        init(engine, *args, **options)

    engines.Engine.__init__ = recorded  # type: ignore[method-assign]
    try:
        run()
    finally:
        engines.Engine.__init__ = init  # type: ignore[method-assign]
    return int(made[0].n_rounds)


def fit(X: Any, **options: Any) -> CRAFT:
    model: CRAFT = quietly(CRAFT(random_state=0, n_threads=1), X, **options)
    return model
