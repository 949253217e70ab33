"""ConvexCovariateClustering and ConvexClustering compared with generic solvers and a plain NumPy program:
seconds, gaps, memory.

    python benches/peers/covariates.py [--parts paths nu0 words edges rows] [--threads 1 2] [--repeat 3]
    [--out FILE.json]

No other maintained package solves either problem; what there is are generic conic solvers (CVXPY with ECOS
and CLARABEL, where it is installed), and scikit-learn's LogisticRegression, which is the same problem where
the fusion penalty is zero.

paths: the paper's synthetic data, disagreeing similarity, ridge .1, n 2^(-0.1 a), a = 0, 1, ...; seconds of
fits, and of their evidence; a conic solver's seconds of one penalty in the middle of the path, its model
compiled before. nu0: without fusion. words: sparse made texts, 2 classes, 10 000 rows of 2604
words, 8 neighbours, 60 penalties, in a process of its own; MB is the peak of that whole process. edges: one
pass over 499 500 edges. rows: convex clustering of rows at one penalty.

Seconds of one thread are CPU seconds, of two wall; medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import sparse

from craft import peak_resident
from dpmeans import machine_line

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication.covariates import conic, cvxpy_is_here, made

from craftc import ConvexClustering, ConvexCovariateClustering
from craftc.covariates import knn_similarity

PATHS = {
    (40, 40): 300,
    (40, 400): 300,
    (40, 4000): 300,
    (200, 400): 300,
    (1000, 4000): 230,
}  # (d, n) -> penalties
RIDGE = 0.1
EDGES, BLOCKS = 1000, 16  # nodes of a complete graph; parts that its edges are cut into
PARTS = ("paths", "nu0", "words", "edges", "rows")


class Timed(ConvexCovariateClustering):
    """Times the evidence by itself."""

    def _scores(self, *arguments: Any) -> Any:
        begin = time.process_time()
        found = super()._scores(*arguments)
        self.evidence_seconds_ = time.process_time() - begin
        return found


def seconds(work: Callable[[], Any], threads: int) -> tuple[Any, float]:
    clock = time.process_time if threads == 1 else time.perf_counter
    begin = clock()
    result = work()
    return result, clock() - begin


def medians(
    works: dict[str, Callable[[], Any]], threads: int, repeat: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """Last result and median seconds of each, run in turn after one run to warm up where there is more than
    one.
    """
    results: dict[str, Any] = {}
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeat + (repeat > 1)):
        for name, work in works.items():
            results[name], took = seconds(work, threads)
            if turn or repeat == 1:
                times[name].append(took)
    return results, {name: float(np.median(took)) for name, took in times.items()}


def shown(model: Any, took: float) -> str:
    path = model.path_
    return (
        f"{took:9.3f} s  {1e3 * took / len(path):8.2f} ms per penalty, evidence "
        f"{model.evidence_seconds_:7.3f} s; relative gap: median "
        f"{path.gap.median():.0e}, largest {path.gap.max():.0e}; 1 to {path.n_clusters.max()} clusters"
    )


# ---- parts ----


def paths(thread_counts: list[int], repeat: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for (d, n), many in PATHS.items():
        table = made((d, n), False, 1)
        penalties = n * 2.0 ** (-0.1 * np.arange(many))
        large = d * n > 1_000_000
        print(f"\npaths: d = {d}, n = {n}, {many} penalties")
        for threads in thread_counts:
            name = f"craftc, {threads} thread{'s'[: threads - 1]}"

            def fit(threads: int = threads, table: Any = table, penalties: Any = penalties) -> Any:
                return Timed(penalties, similarity=table.S, ridge=RIDGE, n_threads=threads).fit(
                    table.X, table.y
                )

            found, took = medians({name: fit}, threads, 1 if large else repeat)
            path = found[name].path_
            print(f"  {name:<28}{shown(found[name], took[name])}")
            rows[f"{d} x {n}, {name}"] = {"seconds": took[name], "gap": path.gap.tolist()}
        if cvxpy_is_here() and d * n <= 80_000:
            middle = int(np.argmin(np.abs(path.n_clusters - 13)))
            solve = conic(table, RIDGE)
            for solver in ("ECOS", "CLARABEL"):
                (_, each), (_, J) = solve(solver, penalties[[middle, middle]])
                far = J / path.objective[middle] - 1.0
                print(
                    f"  CVXPY, {solver:<21}{each:9.3f} s  of one penalty, 2^(-0.1 {middle}) n; objective "
                    f"against ours {far:+.0e}"
                )
                rows[f"{d} x {n}, {solver}"] = {"seconds of a penalty": each, "objective": far}
    return rows


def nu0(_: list[int], repeat: int) -> dict[str, Any]:
    """Without fusion: multinomial logistic regression with a ridge, tolerances set so that objectives agree
    to 1e-6.
    """
    from sklearn.linear_model import LogisticRegression

    rows = {}
    for d, n in ((40, 4000), (200, 400)):
        table = made((d, n), False, 1)
        works: dict[str, Callable[[], Any]] = {
            "craftc, nu = 0": lambda table=table: ConvexCovariateClustering(
                0.0, similarity=table.S, ridge=RIDGE
            ).fit(table.X, table.y),
        }
        for solver in ("lbfgs", "newton-cg", "newton-cholesky"):
            works[f"scikit-learn {solver}"] = lambda table=table, solver=solver: LogisticRegression(
                C=0.5 / RIDGE, tol=1e-9, max_iter=10_000, solver=solver
            ).fit(table.X, table.y)
        found, took = medians(works, 1, repeat)
        print(f"\nnu0: d = {d}, n = {n}")
        for name, model in found.items():
            logp = (
                model.predict_log_proba(table.X)
                if hasattr(model, "predict_log_proba")
                else np.log(model.predict_proba(table.X))
            )
            J = -logp[np.arange(n), table.y].sum() + RIDGE * (model.coef_**2).sum()
            print(f"  {name:<28}{1e3 * took[name]:9.1f} ms  objective {J:.8f}")
            rows[f"{d} x {n}, {name}"] = {"seconds": took[name], "objective": float(J)}
    return rows


def made_texts() -> tuple[Any, np.ndarray, np.ndarray]:
    """(X csr, y, vectors): 10 000 texts of some 12 of 2604 words, whose frequencies fall as 1 / rank, in 200
    kinds with a weight each.
    """
    rng = np.random.default_rng(0)
    n, d = 10_000, 2604
    kind = rng.integers(200, size=d)
    vectors = 3.0 * rng.normal(size=(200, 50))[kind] + rng.normal(size=(d, 50))
    share = 1.0 / (10.0 + np.arange(d))
    word = rng.choice(d, size=12 * n, p=share / share.sum())
    X = sparse.csr_array((np.ones(12 * n), (np.repeat(np.arange(n), 12), word)), (n, d))
    X.sum_duplicates()
    X.data /= np.sqrt(np.repeat((X**2).sum(axis=1), np.diff(X.indptr)))
    logit = 3.0 * (X @ rng.normal(size=200)[kind])
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(int), vectors


def words_here() -> None:
    """In a process of its own."""
    X, y, vectors = made_texts()
    before = peak_resident()  # not getrusage: a child starts with the peak of the process that forked it
    penalties = len(y) * 2.0 ** (-0.1 * np.arange(100, 160))
    model, took = seconds(
        lambda: Timed(penalties, similarity=knn_similarity(vectors), ridge=RIDGE).fit(X, y), 1
    )
    print(
        json.dumps(
            {
                "line": shown(model, took),
                "seconds": took,
                "MB": peak_resident() / 1e6,
                "MB before": before / 1e6,
            }
        )
    )


def words(_: list[int], __: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--words-here"], capture_output=True, text=True, check=True
    )
    row = json.loads(done.stdout.splitlines()[-1])
    print("\nwords: d = 2604, n = 10000, 2 classes, 8 neighbours, 60 penalties")
    print(f"  {'craftc':<28}{row['line']}; peak {row['MB']:.0f} MB, {row['MB before']:.0f} MB before the fit")
    return row


def edges(thread_counts: list[int], repeat: int) -> dict[str, Any]:
    from craftc._kernels.covariates import edge_pass

    rng, rows = np.random.default_rng(0), {}
    edge = np.ascontiguousarray(np.stack(np.triu_indices(EDGES, 1), axis=1), np.int32)
    count = len(edge)
    radius, step = rng.random(count), np.full(count, 0.3)
    print(f"\nedges: {count} edges of {EDGES} nodes, ns per edge")
    for q in (3, 4):
        b, lam, fused = rng.normal(size=(EDGES, q)), np.zeros((count, q)), np.zeros(count, np.uint8)
        total, work = np.zeros((EDGES, q)), np.zeros((BLOCKS, EDGES, q))

        def numpy_pass(b: Any = b, lam: Any = lam) -> None:
            v = lam + step[:, None] * (b[edge[:, 0]] - b[edge[:, 1]])
            p = v * np.minimum(1.0, radius / np.sqrt((v**2).sum(axis=1)))[:, None]
            lam += p - lam
            for column in p.T:
                np.bincount(edge[:, 0], column, EDGES) - np.bincount(edge[:, 1], column, EDGES)

        for threads in thread_counts:
            once = partial(edge_pass, b, edge, radius, step, 1.0, lam, fused, total, work, threads)

            def kernel(once: Any = once) -> None:
                for _ in range(20):
                    once()

            _, took = medians({"kernel": kernel}, threads, max(repeat, 5))
            rows[f"q = {q}, {threads} threads"] = 1e9 * took["kernel"] / 20 / count
        _, took = medians({"numpy": numpy_pass}, 1, repeat)
        rows[f"q = {q}, NumPy"] = 1e9 * took["numpy"] / count
    for name, ns in rows.items():
        print(f"  {name:<28}{ns:9.2f}")
    return rows


def ama(P: np.ndarray, W: Any, penalty: float, tol: float) -> tuple[float, float]:
    """Accelerated AMA (projected dual gradient, restarted) in NumPy: objective, relative gap."""
    upper = sparse.triu(W, 1, format="coo")
    i, j, radius = upper.row, upper.col, penalty * upper.data
    e = np.arange(len(i))
    D = sparse.csr_array((np.repeat([1.0, -1.0], len(i)), (np.tile(e, 2), np.append(i, j))), (len(i), len(P)))
    back = sparse.csr_array(D.T)
    degree = np.bincount(np.append(i, j), minlength=len(P))
    step = 1.0 / (degree[i] + degree[j]).max()
    lam = ahead = np.zeros((len(i), P.shape[1]))
    momentum, before = 1.0, -np.inf
    for _ in range(10_000):
        v = ahead + step * (D @ (P - back @ ahead))
        new = v * np.minimum(1.0, radius / np.maximum(np.sqrt((v**2).sum(axis=1)), 1e-300))[:, None]
        U = P - back @ new
        apart = D @ U
        J = 0.5 * ((P - U) ** 2).sum() + (radius * np.sqrt((apart**2).sum(axis=1))).sum()
        gap = (radius * np.sqrt((apart**2).sum(axis=1))).sum() - (new * apart).sum()
        if gap <= tol * (J - gap):
            break
        if J - gap < before:
            momentum, ahead = 1.0, lam
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = new + (momentum - 1.0) / following * (new - lam)
        lam, momentum, before = new, following, J - gap
    return float(J), float(gap / (J - gap))


def rows(thread_counts: list[int], repeat: int) -> dict[str, Any]:
    found_rows = {}
    for n, p, penalty in ((1000, 2, 10.0), (5000, 10, 2.5)):
        rng = np.random.default_rng(0)
        P = 4.0 * rng.normal(size=(10, p))[rng.integers(10, size=n)] + rng.normal(size=(n, p))
        W = knn_similarity(P)
        works: dict[str, Callable[[], Any]] = {
            f"craftc {solver}": lambda solver=solver: ConvexClustering(
                penalty, weights=W, solver=solver, tol=1e-6
            ).fit(P)
            for solver in ("certified", "admm")
        }
        works["craftc certified, path"] = lambda: ConvexClustering(tol=1e-6).fit(P)
        works["NumPy accelerated AMA"] = lambda: ama(P, W, penalty, 1e-6)
        found, took = medians(works, 1, 1 if n > 1000 else repeat)
        print(f"\nrows: {n} x {p}, penalty {penalty:g}, 8 neighbours, relative gap 1e-6")
        for name, result in found.items():
            J, gap, k = (
                (*result, "-")
                if isinstance(result, tuple)
                else (result.objective_, result.duality_gap_, result.n_clusters_)
            )
            print(
                f"  {name:<28}{1e3 * took[name]:9.1f} ms  objective {J:.6f}, relative gap {gap:.0e}, {k} "
                "clusters"
            )
            found_rows[f"{n} x {p}, {name}"] = {"seconds": took[name], "objective": J, "gap": gap}
    return found_rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--words-here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # the gaps say what is not finished
    if arguments.words_here:
        words_here()
        return
    results: dict[str, Any] = {"date": f"{datetime.date.today()}", "machine": machine_line()}
    print(f"{results['date']}  {results['machine']}")
    for part in arguments.parts:
        results[part] = globals()[part](arguments.threads, arguments.repeat)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
