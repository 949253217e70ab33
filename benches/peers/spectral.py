"""GraphSpectralFeatures compared with a plain NumPy program and the machine's floor: value and gradient,
whole fits, memory.

    python benches/peers/spectral.py [--data DIR] [--parts evaluation fits memory] [--threads 1 2] [--repeat
    5] [--out FILE.json]

No other package has this likelihood. The peer is it in NumPy, dense as its formulas are: for every row the
similarities of all nodes of the grid to all p columns, (rows, M, p), which the numeric nodes share; products
of matrices for pairs of indicators. It stores them once and for all ("stored"), or makes them anew for blocks
of 256 rows in every evaluation ("blocks"). Missing cells have no term in either. Both see the codes of the
levels that our fit found; values and gradients are compared, and must agree to 1e-9.

evaluation: one value and gradient at the weights that two steps reach, heart, adult (2000 rows drawn with
seed 0), and all 48 842 rows of adult, where the peer works in blocks and runs once. fits: from the table to
the graph, gradient 1e-4 in both; the peer is given the codes and steps by SciPy's L-BFGS as it stands, at
most 3000 times. memory: the peak beyond what the process held before, in one more process each: of a fit of 5
steps, of an evaluation of the peer and what it stores.

The floor of an evaluation is its flops over the multiply-add peak measured in this run. Flops per row, with
p1 numbers, p2 indicators of P variables and a grid of M nodes, exp = 20:
    p1 M (4 + 4 (p1 - 1) + 2 P + 24) + p2 (13 p1 + 2 P + 24).
At every node of the grid: a similarity (two products, a minimum, a sign), shared by all nodes; a multiply-add
per other number and an addition per variable for the energy, and as many for the gradient; exp, less the
largest, the sum, the share, the visit. For every indicator: two similarities and their difference per number,
a multiply-add for the energy and one for the gradient; two additions per variable; exp and the like.
Variables that share a table need fewer additions than these.

Seconds of one thread are CPU seconds, of two wall; medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from covariates import medians
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from threadpoolctl import threadpool_limits

from craft import machine_limits, peak_resident, reset_peak, resident
from dpmeans import machine_line

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication.spectral_common import encoded, read
from replication.spectral_graphs import similarity

from craftc import GraphSpectralFeatures, MixedTable
from craftc.spectral.pseudo_likelihood import Parameters

Table = NDArray[np.float64]
PARTS = ("evaluation", "fits", "memory")
SIZES = {"heart": 270, "adult, 2000 rows": 2000, "adult": 48842}
BLOCK = 256
UNARY = 1e-4  # ridge of the unary terms
MOST = 3000  # steps of the peer


def table(name: str, folder: Path) -> Any:
    data = read(folder, name.split(",")[0])
    return None if data is None else data.some(SIZES[name]).X


def few_steps(X: Any, steps: int = 2, threads: int = 1) -> GraphSpectralFeatures:
    return GraphSpectralFeatures(
        unary=True, grid_size=16, max_iter=steps, random_state=0, n_threads=threads
    ).fit(X)


def our_likelihood(
    model: GraphSpectralFeatures, X: Any, threads: int
) -> Callable[[Parameters], tuple[float, Parameters]]:
    model.set_params(n_threads=threads)
    return model._likelihood(model._encoding, MixedTable.from_data(X), None)


# ---- the peer ----


class Dense:
    """The pseudo-likelihood per row and its gradient, in NumPy.

    Parameters
    ----------
    model : GraphSpectralFeatures
        Fitted: names of columns, codes of levels.
    X : data frame
    stored : bool
        Keep all similarities.
    """

    def __init__(self, model: GraphSpectralFeatures, X: Any, stored: bool) -> None:
        self.p1, self.p, self.n = model.n_numeric_, len(model.encoded_names_), len(X)
        self.eps, self.l2 = 0.1 * model.beta, model.l2
        z, w = np.polynomial.legendre.leggauss(model.grid_size)
        half = np.log(model.beta / self.eps) / 2.0
        u = np.exp(np.log(self.eps) + half * (1.0 + z))
        side = half * w * u
        self.u, self.log_w = (
            np.concatenate([-u[::-1], [0.0], u]),
            np.log(np.concatenate([side[::-1], [2.0 * self.eps], side])),
        )
        self.x, self.codes = encoded(X, model), model.codes_[self.p1 :]
        self.known = X.notna().to_numpy()[:, model.encoded_columns_]
        self.x[~self.known] = 0.0
        self.seen = self.x.copy()
        self.seen[:, self.p1 :] = np.where(self.x[:, self.p1 :] > 0.0, self.codes[:, 1], self.codes[:, 0])
        source = model.encoded_columns_
        self.groups = [np.flatnonzero(source[self.p1 :] == j) for j in dict.fromkeys(source[self.p1 :])]
        self.free = np.nonzero(np.triu(source[:, None] != source))
        self.stored = [self.similarities(rows) for rows in self.blocks()] if stored else None

    def blocks(self) -> Iterator[slice]:
        return (slice(start, start + BLOCK) for start in range(0, self.n, BLOCK))

    def similarities(self, rows: slice) -> tuple[Table, Table, Table]:
        """(m, M, p) of the nodes of the grid, (m, p1, p) of the own numbers, (m, p2, p1) what switching an
        indicator on adds.
        """
        x, known, p1 = self.x[rows], self.known[rows], self.p1
        grid = similarity(self.u[:, None], self.seen[rows, None, :], self.eps) * known[:, None, :]
        own = similarity(x[:, :p1, None], self.seen[rows, None, :], self.eps) * known[:, None, :]
        number = x[:, None, :p1]
        lift = similarity(number, self.codes[:, 1:], self.eps) - similarity(
            number, self.codes[:, :1], self.eps
        )
        return grid, own, lift * known[:, None, :p1]

    def __call__(self, theta: Table, b: Table, c: Table) -> tuple[float, Table, Table, Table]:
        p1, u = self.p1, self.u
        value, R, db, dc = 0.0, np.zeros_like(theta), np.zeros_like(b), np.zeros_like(c)
        for i, rows in enumerate(self.blocks()):
            x, known = self.x[rows], self.known[rows]
            grid, own, lift = self.stored[i] if self.stored else self.similarities(rows)
            for s in range(p1):
                here = known[:, s]
                energy = grid @ theta[s] + (self.log_w + c[s, 0] * u + c[s, 1] * u**2)
                log_z = logsumexp(energy, axis=1)
                q = np.exp(energy - log_z[:, None]) * here[:, None]
                powers = np.stack([x[:, s], x[:, s] ** 2], axis=1)
                value += float((own[:, s] @ theta[s] + powers @ c[s] - log_z) @ here)
                R[s] += here @ own[:, s] - q.ravel() @ grid.reshape(-1, self.p)
                dc[s] += here @ powers - q.sum(axis=0) @ np.stack([u, u**2], axis=1)
            F = (
                b
                + 2.0 * x[:, p1:] @ theta[p1:, p1:]
                + np.einsum("ilt,lt->il", lift, theta[p1:, :p1], optimize=True)
            )
            left = np.empty_like(F)
            for group in self.groups:
                here, hit, f = known[:, p1 + group[0]], x[:, p1 + group] > 0.0, F[:, group]
                if len(group) == 1:
                    q, log_z = expit(f), np.logaddexp(0.0, f)
                else:
                    log_z = logsumexp(f, axis=1, keepdims=True)
                    q = np.exp(f - log_z)
                value += float(((hit * f).sum(axis=1) - log_z[:, 0]) @ here)
                left[:, group] = (hit - q) * here[:, None]
            db += left.sum(axis=0)
            R[p1:, p1:] += 2.0 * left.T @ x[:, p1:]
            R[p1:, :p1] += np.einsum("il,ilt->lt", left, lift, optimize=True)
        return value / self.n, (R + R.T) / self.n, db / self.n, dc / self.n

    def penalised(self, vector: Table) -> tuple[float, Table]:
        """What the fit minimises, and its gradient."""
        edges, p2 = len(self.free[0]), self.p - self.p1
        theta = np.zeros((self.p, self.p))
        theta[self.free] = vector[:edges]
        value, G, db, dc = self(
            theta + theta.T, vector[edges : edges + p2], vector[edges + p2 :].reshape(-1, 2)
        )
        ridge = np.append(np.full(edges, self.l2), np.full(len(vector) - edges, UNARY))
        gradient = ridge * vector - np.concatenate([G[self.free], db, dc.ravel()])
        return float(ridge @ vector**2) / 2.0 - value, gradient

    def fit(self, tol: float = 1e-4) -> Any:
        size = len(self.free[0]) + self.p + self.p1
        options = {"maxcor": 10, "gtol": tol, "ftol": 0.0, "maxiter": MOST, "maxfun": 2 * MOST}
        return minimize(self.penalised, np.zeros(size), jac=True, method="L-BFGS-B", options=options)


def difference(model: GraphSpectralFeatures, X: Any, dense: Dense) -> float:
    """The largest of value and gradient between ours and the peer's."""
    at = model._parameters
    value, gradient = our_likelihood(model, X, 1)(at)
    theirs, G, db, dc = dense(*at)
    free = dense.free
    parts = [
        np.array([value - theirs]),
        (gradient.theta - G)[free],
        gradient.b - db,
        (gradient.c - dc).ravel(),
    ]
    return float(np.abs(np.concatenate(parts)).max())


def flops(model: GraphSpectralFeatures) -> float:
    """Of one row."""
    p1, p = model.n_numeric_, len(model.encoded_names_)
    P, M = len(np.unique(model.encoded_columns_[p1:])), 2 * model.grid_size + 1
    return p1 * M * (4 + 4 * (p1 - 1) + 2 * P + 24) + (p - p1) * (13 * p1 + 2 * P + 24)


# ---- parts ----


def evaluation(folder: Path, thread_counts: list[int], repeat: int) -> dict[str, Any]:
    limits = {threads: machine_limits(threads)[1] for threads in thread_counts}
    print(
        "\nevaluation: peaks "
        + ", ".join(f"{peak / 1e9:.0f} GFLOP/s on {t} thread{'s'[: t - 1]}" for t, peak in limits.items())
    )
    out: dict[str, Any] = {"flops per second": limits}
    for name in SIZES:
        X = table(name, folder)
        if X is None:
            print(f"  {name}: skipped, not in {folder} (see --data)")
            continue
        model = few_steps(X)
        at, whole = model._parameters, name == "adult"
        peer = Dense(model, X, stored=not whole)
        far = difference(model, X, peer)
        assert far < 1e-9, far
        print(
            f"  {name}: {len(X)} rows, p = {peer.p}, {flops(model):.0f} flops per row; value and gradient "
            f"agree to {far:.0e}"
        )
        for threads in thread_counts:
            like = our_likelihood(model, X, threads)
            works: dict[str, Callable[[], Any]] = {"craftc": lambda like=like, at=at: like(at)}
            once: dict[str, Callable[[], Any]] = {}
            (once if whole else works)[f"NumPy, {'blocks' if whole else 'stored'}"] = (
                lambda peer=peer, at=at: peer(*at)
            )
            if not whole:
                plain = Dense(model, X, stored=False)
                works["NumPy, blocks"] = lambda plain=plain, at=at: plain(*at)
            with threadpool_limits(threads, "blas"):
                took = medians(works, threads, repeat)[1] | medians(once, threads, 1)[1]
            floor = len(X) * flops(model) / limits[threads]
            for label, each in took.items():
                print(
                    f"    {label:<16}{threads} thread{'s'[: threads - 1]:<2}{1e3 * each:10.2f} ms "
                    f"{each / floor:8.1f} times the floor of "
                    f"{1e3 * floor:.2f} ms{each / took['craftc']:9.1f} times craftc"
                )
                out[f"{name}, {label}, {threads}"] = {
                    "seconds": each,
                    "floor": floor,
                    "over ours": each / took["craftc"],
                }
    return out


def fits(folder: Path, thread_counts: list[int], repeat: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    print("\nfits: from the table to the graph")
    for name in SIZES:
        X = table(name, folder)
        if X is None:
            print(f"  {name}: skipped, not in {folder} (see --data)")
            continue
        print(f"  {name}")
        for threads in thread_counts:
            found, took = medians(
                {
                    "craftc": lambda X=X, threads=threads: GraphSpectralFeatures(
                        unary=True, grid_size=16, random_state=0, n_threads=threads
                    ).fit(X)
                },
                threads,
                repeat if name == "heart" else 1,
            )
            model = found["craftc"]
            line = (
                f"    craftc          {threads} thread{'s'[: threads - 1]:<2}"
                f"{took['craftc']:10.3f} s  {model.n_iter_:5d} steps"
            )
            print(f"{line}  objective {model.objective_:.8f}")
            out[f"{name}, craftc, {threads}"] = {
                "seconds": took["craftc"],
                "objective": model.objective_,
                "steps": model.n_iter_,
            }
        if name == "adult":
            continue
        found, took = medians(
            {"peer": lambda X=X, model=model: Dense(model, X, stored=True).fit()},
            1,
            repeat if name == "heart" else 1,
        )
        done = found["peer"]
        print(
            f"    NumPy, stored   1 thread  {took['peer']:10.3f} s  {done.nit:5d} steps  objective "
            f"{done.fun:.8f}, "
            f"{1e3 * took['peer'] / done.nfev:.2f} ms per evaluation, largest gradient "
            f"{np.abs(done.jac).max():.0e}"
        )
        out[f"{name}, NumPy"] = {
            "seconds": took["peer"],
            "objective": done.fun,
            "steps": done.nit,
            "evaluations": done.nfev,
        }
    return out


def memory_of(who: str, name: str, folder: Path) -> None:
    """In a process of its own: print the bytes of the peak beyond what was held before."""
    X = table(name, folder)
    model = few_steps(X.iloc[:500])  # imports
    source = MixedTable.from_data(X)
    if who != "craftc":
        model = few_steps(X)
    before = resident()
    reset_peak()
    if who == "craftc":
        few_steps(source, 5)
    else:
        Dense(model, X, stored="stored" in who)(*model._parameters)
    print(peak_resident() - before, source.numeric.nbytes + source.codes.nbytes)


def memory(folder: Path, *_: Any) -> dict[str, Any]:
    returned = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "0",
    }  # freed memory goes back at once
    out = {}
    print("\nmemory: MB beyond the input")
    for name in SIZES:
        if table(name, folder) is None:
            print(f"  {name}: skipped, not in {folder} (see --data)")
            continue
        for who in ("craftc", "NumPy, blocks", "NumPy, stored")[: 2 if name == "adult" else 3]:
            command = [sys.executable, __file__, "--memory-of", who, name, "--data", str(folder)]
            done = subprocess.run(
                command, env=os.environ | returned, capture_output=True, text=True, check=True
            )
            extra, source = (int(word) / 1e6 for word in done.stdout.split()[-2:])
            print(f"  {name:<20}{who:<16}{extra:9.1f} of {source:.2f}")
            out[f"{name}, {who}"] = {"MB": extra, "input MB": source}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CRAFTC_DATA", "../shared/data")))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # fits stopped on purpose
    if arguments.memory_of:
        memory_of(*arguments.memory_of, arguments.data)
        return
    results: dict[str, Any] = {"date": f"{datetime.date.today()}", "machine": machine_line()}
    print(f"{results['date']}  {results['machine']}")
    for part in arguments.parts:
        results[part] = globals()[part](arguments.data, arguments.threads, arguments.repeat)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
