"""CRAFT compared with its peers and the machine's floor, all in one run: ratios, objectives and memory.

    python benches/peers/craft.py [--data DIR] [--rounds 9] [--out FILE.json]

Times are medians of interleaved runs. Peer: scikit-learn KMeans (Lloyd) on the one-hot table; kmodes.py has
the comparison with k-prototypes. The floor of a pass is the larger of bytes / read bandwidth and flops /
multiply-add peak, both measured here with the C compiler (one thread each unless said).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

MACHINE_C = r"""
#include <stddef.h>
#include <omp.h>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 8)
int lanes(void) { return LANES; }
double read_all(const double *a, ptrdiff_t n, int threads) {
    double s = 0;
    #pragma omp parallel for simd num_threads(threads) reduction(+:s) schedule(static)
    for (ptrdiff_t i = 0; i < n; i++) s += a[i];
    return s;
}
double multiply_add(ptrdiff_t turns, int threads) {
    double out = 0;
    #pragma omp parallel num_threads(threads) reduction(+:out)
    {
        typedef double lane __attribute__((vector_size(BYTES)));
        lane sum[12], m, d;
        for (int i = 0; i < LANES; i++) { m[i] = 1.0000001; d[i] = 1e-7; }
        for (int j = 0; j < 12; j++) sum[j] = d * (double)(j + 1);
        for (ptrdiff_t t = 0; t < turns; t++)
            for (int j = 0; j < 12; j++) sum[j] = sum[j] * m + d;
        for (int j = 0; j < 12; j++) for (int i = 0; i < LANES; i++) out += sum[j][i];
    }
    return out;
}
"""


def machine_limits(threads: int) -> tuple[float, float]:
    """(bytes per second read, double flops per second) of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "m.c"), Path(folder, "m.so")
        source.write_text(MACHINE_C)
        native = "-march=" + "native"  # the floor may use all the machine has; the package never does
        subprocess.run(
            [
                "cc",
                "-O3",
                native,
                "-mprefer-vector-width=512",
                "-ffast-math",
                "-fopenmp",
                "-shared",
                "-fPIC",
                source,
                "-o",
                library,
            ],
            check=True,
        )
        lib = ctypes.CDLL(str(library))
    lib.read_all.restype = lib.multiply_add.restype = ctypes.c_double
    lib.read_all.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
    lib.multiply_add.argtypes = [ctypes.c_ssize_t, ctypes.c_int]
    data, turns = np.ones(32_000_000), 10_000_000
    read = data.nbytes / best_of(lambda: lib.read_all(data.ctypes.data, data.size, threads), 7)
    flops = threads * turns * 12 * lib.lanes() * 2 / best_of(lambda: lib.multiply_add(turns, threads), 5)
    return read, flops


def best_of(work: Any, rounds: int) -> float:
    """Seconds of the fastest of some runs."""
    return min(timed(work) for _ in range(rounds))


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(works: dict[str, Any], rounds: int) -> dict[str, float]:
    """Median seconds of each, run in turn after one warm-up each."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(timed(work))
    return {name: float(np.median(values)) for name, values in times.items()}


def read_table(data: Path, name: str) -> tuple[Any, list[str], list[str]]:
    """(frame without the class, numeric names, categorical names) of a real table."""
    import pandas as pd

    schema = json.loads((data / "schema.json").read_text())[name]
    types = dict.fromkeys([*schema["categorical"], schema["target"]], str)
    frame = pd.read_csv(data / schema["file"], dtype=types, keep_default_na=False, na_values=[""])
    frame = frame.drop(columns=schema["target"])
    return frame, schema["numeric"], schema["categorical"]


def one_hot(frame: Any, numeric: list[str], categorical: list[str]) -> np.ndarray:
    """Standardised numbers with indicator columns: what KMeans users do."""
    import pandas as pd

    numbers = (frame[numeric] - frame[numeric].mean()) / frame[numeric].std(ddof=0)
    return np.ascontiguousarray(
        pd.concat([numbers, pd.get_dummies(frame[categorical], dtype=float)], axis=1).to_numpy(np.float64)
    )


def adult(data: Path, rounds: int) -> dict[str, Any]:
    """Adult, K = 8 cap, one start to convergence."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from craftc import MixedTable, PaperCRAFT

    frame, numeric, categorical = read_table(data, "adult")
    table = MixedTable.from_data(frame)
    X = one_hot(frame, numeric, categorical)
    models: dict[str, Any] = {}

    def ours(n_threads: int, source: Any) -> Any:
        def work() -> None:
            models[f"craftc {n_threads}"] = PaperCRAFT(
                8, **CAPPED, n_init=1, random_state=0, n_threads=n_threads
            ).fit(source)

        return work

    def kmeans(n_threads: int) -> Any:
        def work() -> None:
            with threadpool_limits(n_threads):
                models["kmeans"] = KMeans(8, n_init=1, random_state=0, algorithm="lloyd").fit(X)

        return work

    times = interleaved(
        {
            "craftc, 2 threads": ours(2, table),
            "craftc, 1 thread": ours(1, table),
            "craftc from the data frame, 2 threads": ours(2, frame),
            "KMeans one-hot, 2 threads": kmeans(2),
            "KMeans one-hot, 1 thread": kmeans(1),
        },
        rounds,
    )
    model = models["craftc 2"]
    return {
        "times": times,
        "ratio KMeans / craftc, 2 threads": times["KMeans one-hot, 2 threads"] / times["craftc, 2 threads"],
        "passes": model.n_iter_,
        "clusters": model.n_clusters_,
        "objective (nats per row)": model.objective_ / len(table),
    }


#: One start under a cap: the price of a cluster is 0, m = 0.5, numbers as they are.
CAPPED: dict[str, Any] = {"cluster_price": 0.0, "model": "likelihood"}


def spambase(data: Path, rounds: int) -> dict[str, Any]:
    """Spambase, m = 0.5, K = 2, one start."""
    from craftc import MixedTable, PaperCRAFT

    table = MixedTable.from_data(read_table(data, "spambase")[0])
    models = {}

    def ours(n_threads: int) -> Any:
        def work() -> None:
            models["model"] = PaperCRAFT(2, **CAPPED, n_init=1, random_state=0, n_threads=n_threads).fit(
                table
            )

        return work

    times = interleaved({"craftc, 1 thread": ours(1), "craftc, 2 threads": ours(2)}, rounds)
    return {
        "times": times,
        "passes": models["model"].n_iter_,
        "objective (nats per row)": models["model"].objective_ / len(table),
    }


def million_rows(n: int = 1_000_000, p: int = 8, q: int = 8, levels: int = 10, K: int = 16) -> Any:
    """(table, labels): the table of the pass benchmark."""
    from craftc import MixedTable

    rng = np.random.default_rng(0)
    labels = rng.integers(0, K, n).astype(np.int32)
    X = np.empty((n, p + q))
    X[:, :p] = rng.normal(size=(n, p)) + 3 * rng.normal(size=(K, p))[labels]
    X[:, p:] = np.where(
        rng.random((n, q)) < 0.6, rng.integers(0, levels, (K, q))[labels], rng.integers(0, levels, (n, q))
    )
    return MixedTable.from_data(X, categorical=list(range(p, p + q))), labels


def one_pass(rounds: int) -> dict[str, Any]:
    """One pass after the first over 1 000 000 x (8 + 8), K = 16, every feature selected, and the machine's
    floor.
    """
    from craftc._common.validation import integer_weights
    from craftc.craft.background import Background
    from craftc.craft.paper.clusters import PaperClusters
    from craftc.craft.paper.search import FixedPriceDescent, OpeningThresholds
    from craftc.craft.parameters import ModelSpec
    from craftc.craft.rows.local import LocalRows
    from craftc.craft.search import FitConfig
    from craftc.table.moments import Moments, integer_grid

    table, labels = million_rows()
    n, K = len(table), 16
    weight, unit = integer_weights(None)
    grid = integer_grid(table, weight)
    background = Background(Moments.of_partition(grid, unit, table, weight, np.zeros(n, np.int32), 1))
    moments = Moments.of_partition(grid, unit, table, weight, labels, K, 2)
    spec = ModelSpec(fraction=1.0)

    def sweep(n_threads: int) -> Any:
        config = FitConfig(LocalRows(table, weight), weight, background, spec, K, 0, n_threads)
        descent = FixedPriceDescent(config, OpeningThresholds(config), 0)
        tables = PaperClusters(moments, background, spec).tables()
        return lambda: descent.one_pass(tables, labels, moments)

    sweep(2)()  # the first pass
    times = interleaved({"1 thread": sweep(1), "2 threads": sweep(2)}, rounds)
    p, q = table.numeric.shape[1], table.codes.shape[1]
    moved = n * (p * 8 + q + 4)
    flops = n * K * (4 * p + q)  # two multiplications and two additions per number, one addition per category
    out: dict[str, Any] = {"times": times, "speed-up of 2 threads": times["1 thread"] / times["2 threads"]}
    for threads, name in ((1, "1 thread"), (2, "2 threads")):
        read, peak = machine_limits(threads)
        floor = max(moved / read, flops / peak)
        out[f"floor, {name} (s)"] = floor
        out[f"pass / floor, {name}"] = times[name] / floor
        out[f"machine, {name}"] = f"{read / 1e9:.1f} GB/s read, {peak / 1e9:.0f} GFLOP/s"
    return out


def memory() -> dict[str, Any]:
    """Peak memory beyond the input of a whole fit on that table, measured in a process of its own."""
    returned = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "0",
    }  # freed memory goes back at once
    command, environment = [sys.executable, __file__, "--memory"], {**os.environ, **returned}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def memory_child() -> None:
    from craftc import PaperCRAFT

    table, _ = million_rows()
    before = resident()
    reset_peak()
    warnings.simplefilter("ignore")
    PaperCRAFT(16, **CAPPED, n_init=1, max_iter=3, random_state=0, init="random", n_threads=2).fit(table)
    peak = peak_resident()
    beyond = peak - before
    print(
        json.dumps(
            {
                "input (MB)": table.nbytes / 1e6,
                "beyond the input (MB)": beyond / 1e6,
                "share": beyond / table.nbytes,
            }
        )
    )


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_resident() -> int:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024


def small_tables(rounds: int) -> dict[str, Any]:
    """Tables below 2 000 rows: 2 threads and 1."""
    from craftc import CRAFT
    from craftc.datasets import load_heart, make_mixed

    tables = {"heart, 270 rows": load_heart().data}
    for n in (600, 1900):
        bunch = make_mixed(n, 4, random_state=0)
        tables[f"mixed, {n} rows"] = bunch.data
    out = {}
    for name, table in tables.items():
        works = {
            f"{t} threads": lambda t=t, table=table: CRAFT(random_state=0, n_threads=t).fit(table)
            for t in (1, 2)
        }
        times = interleaved(works, 4 * rounds)
        out[name] = {"times": times, "2 threads / 1 thread": times["2 threads"] / times["1 threads"]}
    return out


def show(title: str, result: dict[str, Any], indent: str = "  ") -> None:
    print(f"{indent[2:]}{title}")
    for name, value in result.items():
        if name == "times":
            for what, seconds in value.items():
                print(f"{indent}{what:<40} {1e3 * seconds:10.2f} ms")
        elif isinstance(value, dict):
            show(name, value, indent + "  ")
        else:
            print(
                f"{indent}{name:<40} {value:.4g}"
                if isinstance(value, float)
                else f"{indent}{name:<40} {value}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("CRAFTC_DATA", ROOT.parent / "shared" / "data"))
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        memory_child()
        return
    results: dict[str, Any] = {
        "machine": {"processor": platform.processor() or platform.machine(), "cpus": os.cpu_count()}
    }
    if arguments.data.is_dir():
        results["Adult, K = 8 cap, one start to convergence"] = adult(arguments.data, arguments.rounds)
        results["Spambase, m = 0.5, K = 2, one start"] = spambase(arguments.data, arguments.rounds)
    else:
        print(f"no real tables in {arguments.data}: set CRAFTC_DATA or --data")
    results["One pass, 1 000 000 x (8 + 8), K = 16"] = one_pass(arguments.rounds)
    results["Memory of a fit on that table"] = memory()
    results["Tables below 2 000 rows"] = small_tables(arguments.rounds)
    for title, result in results.items():
        show(title, result)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
