"""KModes and KPrototypes compared with kmodes and with the machine's floor, all in one run: seconds, costs
and ratios.

    python benches/peers/kmodes.py [--data DIR] [--rounds 5] [--only adult soybean pass]

Both packages start from the same rows of the table, one start each, or draw their starts from the same seed.
Times of craftc are medians; kmodes runs once. The floor of a pass is the larger of bytes / read bandwidth and
flops / multiply-add peak, measured by craft.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from craft import interleaved, machine_limits, million_rows, read_table, timed

ROOT = Path(__file__).resolve().parents[2]
sys.path = [
    path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent
]  # `kmodes` is the package, not this file
_Row = dict[str, Any]


def compare(ours: dict[str, Callable[[], Any]], theirs: Callable[[], Any], rounds: int) -> list[_Row]:
    """Seconds, passes and cost of every fit; the ratio of the time of kmodes to ours."""
    fitted: dict[str, Any] = {}

    def keep(name: str, work: Callable[[], Any]) -> Callable[[], None]:
        return lambda: fitted.__setitem__(name, work())

    times = interleaved({name: keep(name, work) for name, work in ours.items()}, rounds)
    times["kmodes"] = timed(keep("kmodes", theirs))
    return [
        {
            "": name,
            "seconds": seconds,
            "passes": fitted[name].n_iter_,
            "cost": f"{fitted[name].cost_:,.4f}",
            "kmodes / it": times["kmodes"] / seconds,
        }
        for name, seconds in times.items()
    ]


def adult(data: Path, rounds: int) -> list[_Row]:
    """Adult, standardised numbers, K = 8, one start from the same eight rows."""
    from kmodes.kprototypes import KPrototypes as Theirs

    from craftc import KPrototypes

    frame, numeric, categorical = read_table(data, "adult")
    frame[numeric] = (frame[numeric] - frame[numeric].mean()) / frame[numeric].std(ddof=0)
    frame[categorical] = frame[categorical].fillna("?")
    columns = frame[numeric + categorical]
    values = columns.to_numpy(object)
    positions = list(range(len(numeric), values.shape[1]))
    codes = np.column_stack([np.unique(values[:, j].astype(str), return_inverse=True)[1] for j in positions])
    chosen = np.random.default_rng(0).choice(len(values), 8, replace=False)
    start = [values[chosen][:, : len(numeric)].astype(float), codes[chosen]]

    def ours(**options: Any) -> Callable[[], Any]:
        return lambda: KPrototypes(8, init=start, n_init=1, **options).fit(values, categorical=positions)

    return compare(
        {
            "craftc online, 1 thread": ours(n_threads=1),
            "craftc batch, 1 thread": ours(update="batch", n_threads=1),
            "craftc batch, 2 threads": ours(update="batch", n_threads=2),
            "craftc online from a frame, 1 thread": lambda: KPrototypes(
                8, init=start, n_init=1, n_threads=1
            ).fit(columns),
        },
        lambda: Theirs(8, init=[part.copy() for part in start], n_init=1, random_state=0).fit(
            values, categorical=positions
        ),
        rounds,
    )


def soybean(rounds: int) -> list[_Row]:
    """683 x 35 categories, K = 19, ten starts of Huang, five seeds: all seconds, passes and cost of the seed
    of median cost.
    """
    from kmodes.kmodes import KModes as Theirs

    from craftc import KModes

    rng = np.random.default_rng(0)
    levels = rng.integers(2, 8, 35)
    groups = rng.integers(0, levels, (19, 35))
    X = np.where(
        rng.random((683, 35)) < 0.8, groups[rng.integers(0, 19, 683)], rng.integers(0, levels, (683, 35))
    )

    def ours(**options: Any) -> Callable[[], Any]:
        return lambda: median(
            KModes(19, init="Huang", n_init=10, random_state=seed, **options).fit(X) for seed in range(5)
        )

    def median(models: Iterable[Any]) -> Any:
        return sorted(models, key=lambda model: model.cost_)[2]

    return compare(
        {
            "craftc online, 1 thread": ours(n_threads=1),
            "craftc online, 2 threads": ours(n_threads=2),
            "craftc batch, 1 thread": ours(update="batch", n_threads=1),
        },
        lambda: median(Theirs(19, init="Huang", n_init=10, random_state=seed).fit(X) for seed in range(5)),
        rounds,
    )


def batch_pass(rounds: int) -> list[_Row]:
    """A batch pass over 1 000 000 x (8 + 8), K = 16, and the floor: the difference of two fits of 2 and of 12
    passes, divided by 10.
    """
    from craftc import KPrototypes

    table, _ = million_rows()
    n, p, q, K = len(table), table.numeric.shape[1], table.codes.shape[1], 16
    chosen = np.random.default_rng(0).choice(n, K, replace=False)
    start = [np.ascontiguousarray(table.numeric[chosen], dtype=float), table.codes[chosen].astype(int)]

    def fit(passes: int, threads: int) -> Callable[[], None]:
        def work() -> None:
            model = KPrototypes(
                K, gamma=1.0, init=start, update="batch", max_iter=passes, n_init=1, n_threads=threads
            ).fit(table)
            if model.n_iter_ != passes:
                raise RuntimeError(f"the fit ended after {model.n_iter_} passes, not {passes}")

        return work

    warnings.filterwarnings("ignore", "KPrototypes stopped after")
    times = interleaved(
        {f"{passes} {threads}": fit(passes, threads) for passes in (2, 12) for threads in (1, 2)}, rounds
    )
    rows = []
    for threads in (1, 2):
        read, peak = machine_limits(threads)
        floor = max(n * (p * 8 + q + 4) / read, n * K * (4 * p + q) / peak)
        seconds = (times[f"12 {threads}"] - times[f"2 {threads}"]) / 10
        rows.append(
            {
                "": f"{threads} threads",
                "pass (ms)": 1e3 * seconds,
                "floor (ms)": 1e3 * floor,
                "pass / floor": seconds / floor,
            }
        )
    return rows


def show(title: str, rows: list[_Row]) -> None:
    names = list(rows[0])
    print(f"\n### {title}\n\n| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        print(
            "| "
            + " | ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
            + " |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("CRAFTC_DATA", ROOT.parent / "shared" / "data"))
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", nargs="+", choices=("adult", "soybean", "pass"), default=["adult", "soybean", "pass"]
    )
    arguments = parser.parse_args()
    if "pass" in arguments.only:
        show("One batch pass over 1 000 000 x (8 + 8), K = 16", batch_pass(arguments.rounds))
    if "soybean" in arguments.only:
        show("683 x 35 categories, K = 19, n_init = 10, Huang, five seeds", soybean(arguments.rounds))
    if "adult" in arguments.only:
        show("Adult, 48 842 x (6 + 8), K = 8, one start", adult(arguments.data, arguments.rounds))


if __name__ == "__main__":
    main()
