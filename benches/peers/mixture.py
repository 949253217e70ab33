"""FeatureSelectionMixture compared with scikit-learn's variational DP mixture and the machine's floor:
seconds, bounds, clusters, memory.

    python benches/peers/mixture.py [--data DIR] [--tables chart usps long] [--threads 1 2] [--repeat 5]
    [--out FILE.json]

chart (600 x 60, `synthetic_control.csv.gz`): whole fits from 20 components and 3 starts, to the same
tolerance in total nats. usps (11 000 x 256, `usps.csv.gz`) and a made table of 1 000 000 x 20: a sweep of 30
components, which is a tenth of the difference of a fit of 12 sweeps and one of 2, same seed, merges off;
scikit-learn's iterations likewise, its start from drawn rows. Both see float64 columns in the same units,
centred and divided by one number.

Times are medians of interleaved runs. A sweep is at least 8 D K + 20 K flops per row - two products to say
how likely a row is, two to add it up, and the exponentials - over the multiply-add peak measured in this run;
or one reading of the table. Memory is the peak beyond what the process held before the fit, in one more
process each. Bounds of the two are of different models and leave out different constants.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from craft import machine_limits, peak_resident, reset_peak, resident, timed
from dpmeans import machine_line

SHORT, LONG = 2, 12  # sweeps
FILES = {"chart": "synthetic_control.csv.gz", "usps": "usps.csv.gz"}


class Work(NamedTuple):
    """What is asked of both."""

    n_components: int
    n_init: int
    memory_sweeps: int | None  # of the fit whose memory is measured; None: whole


TABLES = {"chart": Work(20, 3, None), "usps": Work(30, 1, LONG), "long": Work(30, 1, SHORT)}
TOLERANCE = 1e-6  # nats per row


def table(name: str, folder: Path) -> np.ndarray:
    """The rows, centred, mean variance 1."""
    if name == "long":
        rng = np.random.default_rng(0)
        X = 2 * rng.normal(size=(30, 20))[rng.integers(30, size=1_000_000)]
        X[:, 15:] = 0.0  # five columns say nothing
        X += rng.normal(size=X.shape)
    else:
        with gzip.open(folder / FILES[name], "rt", encoding="utf-8") as file:
            X = np.array([line.rsplit(",", 1)[0].split(",") for line in file][1:], dtype=np.float64)
    X -= X.mean(axis=0)
    X /= np.sqrt(X.var(axis=0).mean())
    return np.ascontiguousarray(X)


Outcome = tuple[float, int, int]  # bound, clusters, sweeps of the best start
Peer = Callable[
    [np.ndarray, Work, "int | None", int], Outcome
]  # rows, work, sweeps (None: to the end), threads


def ours(X: np.ndarray, work: Work, sweeps: int | None, threads: int) -> Outcome:
    from craftc import FeatureSelectionMixture

    few = {} if sweeps is None else {"max_iter": sweeps, "tol": 0.0, "merge": False}
    parameters: dict[str, Any] = {
        "tol": TOLERANCE,
        "n_init": work.n_init,
        "random_state": 0,
        "n_threads": threads,
    } | few
    model = FeatureSelectionMixture(work.n_components, **parameters).fit(X)
    return model.elbo_, model.n_clusters_, model.n_iter_


def sklearns(X: np.ndarray, work: Work, sweeps: int | None, threads: int) -> Outcome:
    from sklearn.mixture import BayesianGaussianMixture

    few = (
        {"max_iter": 1000}
        if sweeps is None
        else {"max_iter": sweeps, "tol": 0.0, "init_params": "random_from_data"}
    )
    parameters: dict[str, Any] = {"tol": TOLERANCE * len(X), "n_init": work.n_init, "random_state": 0} | few
    model = BayesianGaussianMixture(n_components=work.n_components, covariance_type="diag", **parameters)
    with threadpool_limits(threads):
        labels = model.fit_predict(X)
    return float(model.lower_bound_), len(np.unique(labels)), int(model.n_iter_)


PEERS: dict[str, Peer] = {"craftc": ours, "scikit-learn diag": sklearns}


def floor(shape: tuple[int, int], K: int, limits: tuple[float, float]) -> tuple[float, str]:
    """(seconds of a sweep that this machine cannot beat without skipping work, what holds it back)."""
    read, flops = limits
    N, D = shape
    return max((N * D * 8 / read, "memory"), (N * (8 * D * K + 20 * K) / flops, "arithmetic"))


def measured(X: np.ndarray, work: Work, thread_counts: list[int], repeat: int, whole: bool) -> dict[str, Any]:
    """(peer, threads) -> times of every run, in turn; whole fits, or pairs of a short and a longer one."""
    jobs = {
        f"{name}, {threads} thread{'s'[: threads - 1]}": partial(peer, X, work, threads=threads)
        for name, peer in PEERS.items()
        for threads in thread_counts
    }
    lengths = [None] if whole else [SHORT, LONG]
    rows: dict[str, Any] = {name: {"times": [[] for _ in lengths]} for name in jobs}
    for name, job in jobs.items():  # pages, thread pools; and what a fit of that length reaches
        rows[name]["bound"], rows[name]["K"], rows[name]["sweeps"] = job(lengths[-1])
    for _ in range(repeat):
        for name, job in jobs.items():
            for times, sweeps in zip(rows[name]["times"], lengths, strict=True):
                time.sleep(0.05)  # the threads of the one before still spin for a moment
                times.append(timed(lambda job=job, sweeps=sweeps: job(sweeps)))
    for row in rows.values():
        times = row["times"]
        row["seconds"] = float(
            np.median(times[0] if whole else np.subtract(times[1], times[0]) / (LONG - SHORT))
        )
    return rows


def memory_of(peer: str, name: str, folder: Path) -> None:
    """In a process of its own: print the bytes of the peak."""
    X, work = table(name, folder), TABLES[name]
    PEERS[peer](X[:500].copy(), work, SHORT, 1)  # imports
    before = resident()
    reset_peak()
    PEERS[peer](X, work, work.memory_sweeps, 1)
    print(peak_resident() - before)


def memories(name: str, folder: Path) -> dict[str, int]:
    returned = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "0",
    }  # freed memory goes back at once
    out = {}
    for peer in PEERS:
        command = [sys.executable, __file__, "--memory-of", peer, name, "--data", str(folder)]
        done = subprocess.run(command, env=os.environ | returned, capture_output=True, text=True, check=True)
        out[peer] = int(done.stdout.split()[-1])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CRAFTC_DATA", "../shared/data")))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # fits stopped on purpose
    if arguments.memory_of:
        memory_of(*arguments.memory_of, arguments.data)
        return
    limits = {threads: machine_limits(threads) for threads in arguments.threads}
    results: dict[str, Any] = {
        "date": f"{datetime.date.today()}",
        "machine": machine_line(),
        "limits": limits,
        "tables": {},
    }
    print(f"{results['date']}  {results['machine']}")
    for threads, (read, flops) in limits.items():
        print(f"threads {threads}: {read / 1e9:.1f} GB/s read, {flops / 1e9:.0f} GFLOP/s in float64")
    for name in arguments.tables:
        if name in FILES and not (arguments.data / FILES[name]).is_file():
            print(f"\n{name}: skipped, no {arguments.data / FILES[name]} (see --data)")
            continue
        X, work, whole = table(name, arguments.data), TABLES[name], name == "chart"
        extra = memories(name, arguments.data)
        settings = f"{work.n_components} components, {work.n_init} start{'s'[: work.n_init - 1]}"
        print(f"\n{name}: {len(X)} x {X.shape[1]}, {settings}; input {X.nbytes / 1e6:.1f} MB")
        print(
            "  "
            f"{'':<30}{'ms per fit' if whole else 'ms per sweep':>13}{'/floor':>8}"
            f"{'bound':>15}{'K':>5}{'sweeps':>8}{'extra MB':>10}"
        )
        rows = measured(X, work, arguments.threads, arguments.repeat, whole)
        for title, row in rows.items():
            peer, threads = title.split(", ")[0], int(title.split(", ")[1].split()[0])
            row["memory"] = extra[peer]
            row["floor"], row["held back by"] = floor(X.shape, work.n_components, limits[threads])
            over = "-" if whole else f"{row['seconds'] / row['floor']:.1f}"
            more = f"{row['memory'] / 1e6:.1f}" if threads == 1 else "-"
            line = (
                f"  {title:<30}{1e3 * row['seconds']:13.2f}{over:>8}"
                f"{row['bound']:15.1f}{row['K']:5d}{row['sweeps']:8d}{more:>10}"
            )
            print(line)
        if not whole:
            for threads in arguments.threads:
                least, why = floor(X.shape, work.n_components, limits[threads])
                print(f"  the floor of a sweep, threads {threads}: {1e3 * least:.2f} ms ({why})")
        results["tables"][name] = rows
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
