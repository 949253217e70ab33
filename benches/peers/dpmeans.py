"""DP-means compared with its peers and the machine's floor on mixtures of round Gaussians: seconds,
objectives at one penalty, memory.

    python benches/peers/dpmeans.py [--shapes A B C] [--huge] [--dtypes float32 float64] [--threads 1 2]
    [--repeat 3]
                                    [--peers NAME ...] [--pdc-python PATH] [--memory] [--out FILE.json]

Every peer lives in a process of its own, with its threads fixed before numpy loads, and is warmed up on the
first rows; the processes then fit in turn, each by its own clock, and the medians are shown. Everybody is
judged by the same objective: exact means of the labels found, SSE + (K - 1) lam2 in float64. The floor of a
pass is the larger of N D s bytes / read bandwidth and 2 N K D flops / multiply-add peak, both measured in
this run; the K-means peers are given the true K. pdc-dp-means pins an old scikit-learn: give it the python of
an environment of its own.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from craft import machine_limits, peak_resident, reset_peak, resident, timed


class Shape(NamedTuple):
    """N rows of D numbers around K centres, which are `spread` x standard normal; `lam2` is the price of a
    cluster.
    """

    N: int
    D: int
    K: int
    spread: float
    lam2: float


SHAPES = {
    "A": Shape(100_000, 16, 10, 2.0, 80.0),
    "B": Shape(1_000_000, 16, 50, 2.0, 80.0),
    "C": Shape(60_000, 256, 100, 1.0, 450.0),
    "D": Shape(10_000_000, 8, 20, 2.0, 40.0),
}
WARM_UP_ROWS = 2000
FULL_SWEEPS = 25


def mixture(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """(rows, true labels): unit noise around the centres."""
    rng = np.random.default_rng(0)
    centres = shape.spread * rng.standard_normal((shape.K, shape.D))
    labels = rng.integers(shape.K, size=shape.N)
    X = rng.standard_normal((shape.N, shape.D))
    for rows in np.array_split(np.arange(shape.N), max(1, shape.N // 65_536)):
        X[rows] += centres[labels[rows]]
    return X, labels


def objective(X: np.ndarray, labels: np.ndarray, lam2: float) -> tuple[float, int]:
    """(J, K): squared distances to the exact means, and the price of every cluster but the first."""
    _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    squares = 0.0
    for column in X.T:
        x = column.astype(np.float64)
        means = np.bincount(labels, x) / sizes
        squares += float(np.square(x - means[labels]).sum())
    return squares + (len(sizes) - 1) * lam2, len(sizes)


# --- The peers: fit(X, shape, threads) gives (iterations, a way to the labels); what only serves our
# judgement is not timed


Outcome = tuple[int, Callable[[], np.ndarray]]


class Peer(NamedTuple):
    package: str
    fit: Callable[[np.ndarray, Shape, int], Outcome]


def random_rows(X: np.ndarray, K: int) -> np.ndarray:
    return X[np.random.default_rng(1).choice(len(X), K, replace=False)]


def ours(mode: str, polish: bool = False, max_iter: int = 300) -> Peer:
    def fit(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
        from craftc import DPMeans

        if mode == "serial" and shape.D < shape.lam2 < 2 * shape.D:
            raise RuntimeError("serial DP-means shatters clusters where D < lambda^2 < 2 D")
        model = DPMeans(
            shape.lam2, mode=mode, polish=polish, max_iter=max_iter, n_threads=threads, random_state=0
        ).fit(X)
        return model.n_iter_, lambda: model.labels_

    return Peer("craftc", fit)


def searched(**parameters: Any) -> Peer:
    """The search; given K, it knows as much as the k-means peers."""

    def fit(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
        from craftc import DPMeans

        given = {"n_clusters": shape.K} if "n_clusters" in parameters else parameters
        model = DPMeans(**given, n_threads=threads, random_state=0).fit(X)
        return model.n_iter_, lambda: model.labels_

    return Peer("craftc", fit)


def full_sweeps(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
    """Sweeps that look at every row, from the rows that Lloyd starts with: assignment and means, no bounds,
    nothing opens.
    """
    from craftc._common.dense_data import DenseData
    from craftc.dpmeans.descent import SphericalDescent, nearest

    data = DenseData(X, None, threads)
    labels, _ = nearest(X, random_rows(X, shape.K).astype(np.float64), threads)
    descent = SphericalDescent(data, shape.lam2, shape.K, labels, data.order(0, 0))
    for _ in range(FULL_SWEEPS - 1):
        descent.rows.forget_bounds()
        descent.run(descent.serial, [], 1)
    return FULL_SWEEPS, lambda: descent.rows.labels


def kmeans(algorithm: str, from_rows: bool) -> Peer:
    def fit(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
        from sklearn.cluster import KMeans

        init = random_rows(X, shape.K) if from_rows else "k-means++"
        model = KMeans(shape.K, init=init, n_init=1, algorithm=algorithm, random_state=0).fit(X)
        return model.n_iter_, lambda: model.labels_

    return Peer("scikit-learn", fit)


def minibatch_kmeans(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(shape.K, n_init=1, batch_size=4096, random_state=0).fit(X)
    return model.n_iter_, lambda: model.labels_


def faiss_kmeans(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
    """25 iterations: there is no stop test."""
    import faiss

    if X.dtype != np.float32:
        raise TypeError("float32 only")
    model = faiss.Kmeans(
        shape.D, shape.K, niter=25, seed=1, max_points_per_centroid=len(X), min_points_per_centroid=1
    )
    model.train(X, init_centroids=random_rows(X, shape.K))
    return 25, lambda: model.assign(X)[1]


def pdc(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
    from pdc_dp_means import DPMeans

    model = DPMeans(n_clusters=1, n_init=1, delta=shape.lam2, max_iter=1000, random_state=0).fit(X)
    return model.n_iter_, lambda: model.labels_


def minibatch_pdc(X: np.ndarray, shape: Shape, threads: int) -> Outcome:
    from pdc_dp_means import MiniBatchDPMeans

    model = MiniBatchDPMeans(n_clusters=1, n_init=1, delta=shape.lam2, batch_size=4096, random_state=0).fit(X)
    return model.n_iter_, lambda: model.labels_


PEERS = {
    "K given": searched(n_clusters=True),
    "no arguments": searched(),
    "lambda^2": ours("auto"),
    "sweeps": Peer("craftc", full_sweeps),
    "serial, 5": ours("serial", max_iter=5),
    "serial": ours("serial"),
    "serial+polish": ours("serial", polish=True),
    "delayed": ours("delayed"),
    "delayed+polish": ours("delayed", polish=True),
    "collapsed": ours("collapsed"),
    "lloyd": kmeans("lloyd", from_rows=False),
    "lloyd-rows": kmeans("lloyd", from_rows=True),
    "elkan": kmeans("elkan", from_rows=False),
    "elkan-rows": kmeans("elkan", from_rows=True),
    "minibatch": Peer("scikit-learn", minibatch_kmeans),
    "faiss": Peer("faiss-cpu", faiss_kmeans),
    "pdc": Peer("pdc-dp-means", pdc),
    "pdc-minibatch": Peer("pdc-dp-means", minibatch_pdc),
}
OURS = [
    name
    for name, peer in PEERS.items()
    if peer.package == "craftc" and name not in ("sweeps", "K given", "no arguments")
]


# --- A peer's process


def work(job: dict[str, Any]) -> None:
    """Answer the questions that come in line by line, in lines of JSON; what the libraries themselves print
    goes the way of errors.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    try:
        peer, shape, threads = PEERS[job["peer"]], SHAPES[job["shape"]], job["threads"]
        X = np.load(job["file"])
        peer.fit(X[:WARM_UP_ROWS], shape, threads)  # imports, thread pools
        say(package=peer.package, version=version_of(peer.package))
        outcomes: list[Outcome] = []  # the last fit
        for question in map(str.strip, sys.stdin):
            if question == "fit":
                outcomes.clear()
                time.sleep(0.1)  # the threads of the peer before still spin for a moment
                say(seconds=timed(lambda: outcomes.append(peer.fit(X, shape, threads))))
            elif question == "memory":
                before = resident()
                reset_peak()
                peer.fit(X, shape, threads)
                say(memory=peak_resident() - before)
            elif question == "judge":
                iterations, labels = outcomes[0]
                J, K = objective(X, labels(), shape.lam2)
                say(iterations=int(iterations), J=J, K=K)
    except Exception as error:
        say(error=f"{error}")


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from the source tree"


class Skipped(Exception):
    """Why a peer has no row."""


class Worker:
    """The other end of a peer's process."""

    def __init__(self, python: str, job: dict[str, Any], **environment: str) -> None:
        count = str(job["threads"])
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            **environment,
        }
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)  # another environment has packages of its own
        self.process = subprocess.Popen(
            [python, __file__, "--worker", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # pdc-dp-means has "Exception ignored in ..." to say at every iteration
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.__exit__(None, None, None)  # its questions end, and so does it

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        facts: dict[str, Any] = (
            json.loads(line) if line else {"error": f"the process ended: {self.process.wait()}"}
        )
        if "error" in facts:
            raise Skipped(facts["error"])
        return facts

    def ask(self, question: str) -> dict[str, Any]:
        print(question, file=self.process.stdin, flush=True)
        return self.answer()


# --- The tables


def beside_each_other(
    names: list[str], job: dict[str, Any], pythons: dict[str, str], repeat: int, memory: bool
) -> dict[str, Any]:
    """Name -> what was measured, or why nothing was."""
    rows: dict[str, Any] = {}
    with ExitStack() as stack:
        workers = {}
        for name in names:
            package = PEERS[name].package
            if package not in pythons:
                rows[name] = {"skipped": f"no python with {package} was given (--pdc-python)"}
                continue
            workers[name] = stack.enter_context(Worker(pythons[package], {**job, "peer": name}))
            rows[name] = {"times": []}
            attempt(rows, name, workers, Worker.answer)
        for _ in range(repeat):
            for name in list(workers):
                attempt(
                    rows,
                    name,
                    workers,
                    lambda worker, row=rows[name]: row["times"].append(worker.ask("fit")["seconds"]),
                )
        for name in list(workers):
            attempt(rows, name, workers, lambda worker: worker.ask("judge"))
    if memory:
        returned = {
            "MALLOC_MMAP_THRESHOLD_": "65536",
            "MALLOC_TRIM_THRESHOLD_": "0",
        }  # freed memory goes back at once
        for name in list(workers):
            with Worker(pythons[PEERS[name].package], {**job, "peer": name}, **returned) as worker:
                attempt(
                    rows, name, {name: worker}, lambda worker: {**worker.answer(), **worker.ask("memory")}
                )
    for row in rows.values():
        if "skipped" not in row:
            row["seconds"] = float(np.median(row["times"]))
    return rows


def attempt(
    rows: dict[str, Any],
    name: str,
    workers: dict[str, Worker],
    step: Callable[[Worker], dict[str, Any] | None],
) -> None:
    """Take one step of a peer and keep what it says; one that fails is asked no more."""
    try:
        rows[name].update(step(workers[name]) or {})
    except (Skipped, BrokenPipeError) as reason:
        rows[name] = {"skipped": str(reason)}
        del workers[name]


def floor(shape: Shape, dtype: str, limits: tuple[float, float]) -> tuple[float, str]:
    """(seconds of a pass that this machine cannot beat without skipping work, what holds it back)."""
    read, double_flops = limits
    size = np.dtype(dtype).itemsize
    reading = shape.N * shape.D * size / read
    counting = (
        2 * shape.N * shape.K * shape.D / (double_flops * 8 / size)
    )  # a register holds twice as many floats
    return max((reading, "memory"), (counting, "arithmetic"))


def show(rows: dict[str, Any], least: float, memory: bool) -> None:
    for name, row in rows.items():
        if "skipped" in row:
            print(f"  {name:<15} skipped: {row['skipped']}")
            continue
        per_pass = row["seconds"] / max(1, row["iterations"])
        ratios = [
            f"{rows[our]['seconds'] / row['seconds']:.2f}" if "seconds" in rows.get(our, {}) else "-"
            for our in OURS
        ]
        extra = f" {row['memory'] / 1e6:9.1f}" if memory else ""
        print(
            "  "
            f"{name:<15}{row['seconds']:9.4f}{row['iterations']:7d}"
            f"{1e3 * per_pass:10.3f}{per_pass / least:8.1f}"
            f"{row['J']:15.0f}{row['K']:6d}{extra} {in_columns(ratios)}"
        )


def in_columns(words: list[str]) -> str:
    """The last columns: the seconds of each of ours over those of the row."""
    return " ".join(f"{word:>{len(our) + 2}}" for word, our in zip(words, OURS, strict=True))


def machine_line() -> str:
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
    return (
        f"{model} ({platform.machine()}), {os.cpu_count()} cpus, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["A", "B", "C"])
    parser.add_argument("--huge", action="store_true", help="shape D too: 10 million rows")
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "float64"], default=["float32", "float64"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="NAME", help=", ".join(PEERS)
    )
    parser.add_argument("--pdc-python", metavar="PATH", help="a python that can import pdc_dp_means")
    parser.add_argument(
        "--memory",
        action="store_true",
        help="peak memory beyond that before the fit, in one more process each",
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    pythons = {"craftc": sys.executable, "scikit-learn": sys.executable, "faiss-cpu": sys.executable}
    if arguments.pdc_python:
        pythons["pdc-dp-means"] = arguments.pdc_python
    limits = {threads: machine_limits(threads) for threads in arguments.threads}
    results: dict[str, Any] = {
        "date": f"{datetime.date.today()}",
        "machine": machine_line(),
        "limits": limits,
        "tables": [],
    }
    print(f"{results['date']}  {results['machine']}")
    for threads, (read, flops) in limits.items():
        print(
            f"threads {threads}: {read / 1e9:.1f} GB/s read, {flops / 1e9:.0f} / {2e-9 * flops:.0f} GFLOP/s "
            "in float64 / float32"
        )
    versions: dict[str, str] = {}
    for name in dict.fromkeys([*arguments.shapes, *["D"] * arguments.huge]):
        shape = SHAPES[name]
        X, labels = mixture(shape)
        truth = objective(X, labels, shape.lam2)[0]
        print(
            f"\n{name}: {shape.N} x {shape.D}, K = {shape.K}, lam2 = {shape.lam2:g}; J of the true labels "
            f"{truth:.0f}"
        )
        extra = f" {'extra MB':>9}" if arguments.memory else ""
        ratios = in_columns([f"{our}/" for our in OURS])
        print(
            f"  {'':<15}{'seconds':>9}{'iter.':>7}{'ms/iter.':>10}{'/floor':>8}{'J':>15}{'K':>6}{extra} "
            f"{ratios}"
        )
        for dtype in arguments.dtypes:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "X.npy")
                np.save(file, X.astype(dtype))
                for threads in arguments.threads:
                    job = {"shape": name, "threads": threads, "file": str(file)}
                    least, bound = floor(shape, dtype, limits[threads])
                    print(
                        f" {dtype}, threads {threads}: the floor of a pass is {1e3 * least:.2f} ms ({bound})"
                    )
                    rows = beside_each_other(
                        arguments.peers, job, pythons, arguments.repeat, arguments.memory
                    )
                    show(rows, least, arguments.memory)
                    versions |= {row["package"]: row["version"] for row in rows.values() if "package" in row}
                    table = {
                        "shape": name,
                        "dtype": dtype,
                        "threads": threads,
                        "floor": least,
                        "truth": truth,
                        "peers": rows,
                    }
                    results["tables"].append(table)
    print("\n" + ", ".join(f"{package} {version}" for package, version in versions.items()))
    results["versions"] = versions
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
