"""Fits on partitions that are lost: random tables, cuts and losses, without processes.

An engine in this process loses partitions and labels by a seeded schedule, as a cluster does whose workers
fail, and answers some messages twice. The limits between small and large tables are lowered, so that tables
of a few hundred rows are searched in their partitions.

    python -m tests.distributed.fuzz --cases 1000 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import time
from unittest import mock

import numpy as np
import pandas as pd

from craftc import CRAFT
from craftc.craft import links, search
from craftc.craft.rows import local, partitioned
from craftc.craft.rows.recipes import sides_moved
from craftc.craft.search import automatic, covariances, forms, splits
from craftc.distributed import Partitions
from craftc.distributed.dask.engine import _answer
from craftc.distributed.engine import SerialEngine, read_part, rebuilt
from craftc.distributed.partitions import Part
from craftc.table import bins
from tests.distributed.same_fit import cut, differences, differences_of_levels, equal, outcome

COUNTS = {"rounds": 0, "losses": 0, "local passes": 0, "fits": 0, "errors": 0}


@contextlib.contextmanager
def low_limits(large=100, few=40):
    """Tables, clusters and samples are large above a hundred rows or less."""
    with contextlib.ExitStack() as stack:
        for module in (automatic, covariances, links, search, splits):
            stack.enter_context(mock.patch.object(module, "SAMPLE_ROWS", large))
        stack.enter_context(mock.patch.object(forms, "_ROWS", large))
        stack.enter_context(mock.patch.object(partitioned, "_FEW_ROWS", few))
        stack.enter_context(mock.patch.object(local, "_MANY", large))
        stack.enter_context(mock.patch.object(splits, "_SPLIT_SAMPLE", 32))
        stack.enter_context(mock.patch.object(splits, "_TRIAL_SAMPLE", 48))
        stack.enter_context(mock.patch.object(splits, "_MOST_CANDIDATES", 24))
        stack.enter_context(mock.patch.object(splits, "_SCREENED", 12))
        stack.enter_context(mock.patch.object(splits, "_SCREENING_SAMPLE", 20))
        yield


@contextlib.contextmanager
def every_split_is_tried():
    """Splits of long clusters are tried with all rows, whatever a sample promises."""

    async def promises(*_):
        return True

    with mock.patch.object(splits.SplitFinder, "_promises", promises):
        yield


@contextlib.contextmanager
def sampled_encoding(above):
    """Encodings are decided by a sample above this many rows."""
    from craftc.distributed import partitioned_table

    with contextlib.ExitStack() as stack:
        for module in (bins, partitioned_table):
            stack.enter_context(mock.patch.object(module, "SAMPLED_ABOVE", above))
        yield


class Losses(SerialEngine):
    """An engine that loses partitions and labels by a seeded schedule, and sends messages as bytes.

    Parameters
    ----------
    contents : list
    seed : int
    rate : float
        Chance that a partition is lost before a round; half of it: after its answer, and so that labels are
        lost.
    """

    def __init__(self, contents, seed, rate):
        super().__init__(contents)
        self.rng, self.rate = np.random.default_rng(seed), rate

    def _round(self, message):
        self.n_rounds += 1
        COUNTS["rounds"] += 1
        COUNTS["local passes"] += sum(call.function is sides_moved for call in message.calls)
        return [self._answers_of(i, message) for i in range(self.n_partitions)]

    def _answers_of(self, i, message):
        draw = self.rng.random(3) < self.rate * np.array([1.0, 0.5, 0.5])
        part: Part | None = None if draw[0] else self.parts[i]
        if part is not None and draw[1] and part.known:
            del part.known[int(self.rng.choice(list(part.known)))]
        sent = pickle.dumps(message.for_partitions([i]))
        answers = _answer(part, pickle.loads(sent).for_partition(i), 1)
        if answers is not None and draw[2]:  # the answers were lost, or the worker after it had answered
            part = None if self.rng.random() < 0.5 else part
            again = _answer(part, pickle.loads(sent).for_partition(i), 1)
            assert again is None or pickle.dumps(again) == pickle.dumps(answers)
            answers = again
        if answers is None:
            COUNTS["losses"] += 1
            part = read_part(i, self.reading, self.contents[i])
            answers = rebuilt(part, *pickle.loads(pickle.dumps(self.everything(message, i))))
            self.parts[i] = part
        return answers


class LosingPartitions(Partitions):
    """Partitions that are lost during the fit."""

    def __init__(self, contents, seed, rate):
        super().__init__(contents)
        self.seed, self.rate = seed, rate

    def engine(self, n_threads):
        self.last = Losses(self.contents, self.seed, self.rate)
        return self.last


def random_table(rng):
    """A table of some random columns, in clusters; half of the tables are arrays."""
    n = int(
        rng.choice([rng.integers(1, 12), rng.integers(12, 101), rng.integers(101, 600)], p=[0.05, 0.1, 0.85])
    )
    group = rng.integers(0, rng.integers(1, 7), n)
    p, q = int(rng.integers(0, 5)), int(rng.integers(0, 5))
    p = max(p, int(q == 0))
    dtype = rng.choice([np.float32, np.float64])
    kinds = rng.integers(0, 6, p)
    place = rng.normal(size=(6, p)) * rng.choice([0.5, 2.0, 5.0])
    cells = rng.normal(size=(n, p)) + place[group]
    cells = np.where(kinds == 1, np.exp(cells), cells)
    cells = np.where(kinds == 2, np.rint(cells), cells)
    cells = np.where((kinds == 3) & (rng.random(n) < 0.4)[:, None], 0.0, cells)
    cells = np.where(kinds == 4, cells[:, [0]] + 0.3 * cells, cells) if p else cells
    cells = (cells * 10.0 ** rng.integers(-2, 3, p)).astype(dtype)
    missing = rng.choice([0.0, 0.1])
    cells[rng.random(cells.shape) < missing] = np.nan
    if rng.random() < 0.2 and not q:
        return cells
    frame = pd.DataFrame({f"n{d}": cells[:, d] for d in range(p)})
    for d in range(q):
        levels = int(rng.integers(1, 7))
        codes = np.where(rng.random(n) < 0.6, group % levels, rng.integers(0, levels, n))
        codes[rng.random(n) < missing] = -1
        names = rng.permutation([f"l{i}" for i in range(levels)]).tolist()
        kind = rng.integers(0, 3)
        frame[f"c{d}"] = (
            pd.Categorical.from_codes(codes, names, ordered=bool(rng.random() < 0.5))
            if kind == 0
            else pd.Series([None if c < 0 else names[c] for c in codes], dtype=object)
            if kind == 1
            else codes % 2 == 0
        )
    return frame


def random_borders(rng, n):
    """Borders of up to seven parts, some of them empty."""
    return [0, *sorted(rng.integers(0, n + 1, rng.integers(0, 7)).tolist()), n]


def random_parameters(rng):
    parameters = {
        "n_clusters": [None, None, None, int(rng.integers(1, 9))][rng.integers(4)],
        "covariance": rng.choice(["auto", "auto", "diagonal", "full", "tied"]),
        "missing": rng.choice(["ignore", "category"]),
        "max_clusters": int(rng.choice([2, 6, 100])),
        "n_init": int(rng.integers(1, 4)),
        "random_state": int(rng.integers(0, 100)),
        "price_factor": [1.0, "auto", 0.3][rng.integers(3)],
    }
    return {name: str(value) if isinstance(value, np.str_) else value for name, value in parameters.items()}


def problem(seed):
    """What is wrong with the fit of a random table on random partitions that are lost at random; empty:
    nothing.
    """
    rng = np.random.default_rng(seed)
    X, parameters = random_table(rng), random_parameters(rng)
    borders, rate = random_borders(rng, len(X)), float(rng.choice([0.0, 0.05, 0.3, 1.0]))
    partitions = LosingPartitions(cut(X, borders), seed, rate)
    above = int(rng.choice([150, 1 << 20]))
    with low_limits(), sampled_encoding(above):
        here, said = outcome(lambda: CRAFT(**parameters).fit(X))
        far, far_said = outcome(lambda: CRAFT(**parameters).fit(partitions))
        COUNTS["fits"] += 1
        context = f"seed {seed}: {parameters}, {X.shape}, borders {borders}, losses {rate}"
        if isinstance(here, Exception) or isinstance(far, Exception):
            COUNTS["errors"] += 1
            same = type(here) is type(far)
            return "" if same else f"{context}: {far!r} instead of {here!r}"
        found = differences(far, here) + differences_of_levels(far, here)
        if not equal(far_said, said):
            found.append(f"warnings {far_said} instead of {said}")
    return f"{context}: {found}" if found else ""


def problems(n_cases, seed=0, seconds=None):
    """The problems of cases from a seed on, and the number of cases, until time is up."""
    began, found, n = time.monotonic(), [], 0
    for n in range(n_cases):
        if seconds is not None and time.monotonic() - began > seconds:
            return found, n
        found += [each] if (each := problem(seed + n)) else []
    return found, n_cases


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    for case in range(chosen.seed, chosen.seed + chosen.cases):
        if text := problem(case):
            print(text, flush=True)
    print(f"{chosen.cases} cases from seed {chosen.seed}: {COUNTS}")
