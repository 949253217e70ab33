"""Many Python threads at once: one fitted estimator, one kernel, one table for all of them; every answer is
that of one thread.

Kernels run without the GIL, so these races are real ones on every Python; on a free-threaded Python so is all
the rest.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  loads its BLAS
from threadpoolctl import threadpool_info, threadpool_limits

from craftc import CRAFT, DPMeans, _kernels
from craftc._common import threads
from craftc._kernels import dpmeans as kernel
from tests.conformance.fingerprints import MODELS, ROWS, answers, digest, fit, fitted_numbers

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # a few sweeps will do here
    pytest.mark.filterwarnings("ignore:Columns differ in scale:UserWarning"),
]
THREADS, TURNS = 8, 5


def at_once(function, turns=TURNS):
    """What `function(thread, turn)` returns for every thread and turn; all threads start together."""
    start = Barrier(THREADS)

    def work(thread):
        start.wait(60)
        return [function(thread, turn) for turn in range(turns)]

    with ThreadPoolExecutor(THREADS) as pool:
        return [result for results in pool.map(work, range(THREADS)) for result in results]


@pytest.fixture(params=[1, 2], ids=["one-thread-each", "two-threads-each"])
def shared(request, monkeypatch):
    """Kernels that share their rows among OpenMP threads too, however few rows."""
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    return request.param


@pytest.mark.slow_except(10)
@pytest.mark.parametrize("name", MODELS)
def test_one_fitted_estimator(name, shared):
    fitted = fit(name, shared)
    before, own = digest(answers(name, fitted)), digest(fitted_numbers(fitted))
    assert set(at_once(lambda *_: digest(answers(name, fitted)))) == {before}
    assert digest(fitted_numbers(fitted)) == own


@pytest.mark.slow_except(14)
@pytest.mark.parametrize("name", MODELS)
def test_fits_of_one_table(name, shared):
    expected = digest(fitted_numbers(fit(name, 1)))
    assert set(at_once(lambda *_: digest(fitted_numbers(fit(name, shared))), turns=1)) == {expected}


def test_a_kernel_without_a_workspace(shared):
    """The same rows and centres read by all, distances written by each; and against plain arithmetic."""
    centres = np.ascontiguousarray(ROWS[::100])

    def distances(*_):
        out = np.empty((len(ROWS), len(centres)))
        kernel.distances(ROWS, centres, out, shared)
        return out

    alone = distances()
    np.testing.assert_allclose(alone, ((ROWS[:, None] - centres) ** 2).sum(axis=2), atol=1e-9)
    for found in at_once(distances, turns=20):
        np.testing.assert_array_equal(found, alone)


def test_fits_of_other_sizes_side_by_side():
    """Scratch is never another thread's."""
    sizes = [50 + 97 * thread for thread in range(THREADS)]
    alone = [DPMeans(60.0, random_state=0, n_threads=1).fit(ROWS[:n]).labels_ for n in sizes]
    found = at_once(
        lambda thread, _: (
            thread,
            DPMeans(60.0, random_state=0, n_threads=1).fit(ROWS[: sizes[thread]]).labels_,
        )
    )
    for thread, labels in found:
        np.testing.assert_array_equal(labels, alone[thread])


@pytest.mark.slow
def test_every_module_imported_by_many_threads():
    """First imports race: names of the package are looked up when they are first asked for."""
    script = (
        "import threading, craftc\n"
        "start, seen = threading.Barrier(8), []\n"
        "def work():\n"
        "    start.wait()\n"
        "    seen.append([getattr(craftc, name) for name in craftc.__all__ if name != 'plot'])\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert len(seen) == 8 and all(one is two for row in seen for one, two in zip(row, seen[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_no_kernel_brings_the_gil_back():
    for module in pkgutil.iter_modules(_kernels.__path__):
        importlib.import_module(f"craftc._kernels.{module.name}")
    assert not sys._is_gil_enabled()


# ---- BLAS ----


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_blas_has_one_thread_in_the_context():
    with threadpool_limits(2, user_api="blas"):
        with threads.one_blas_thread(), threads.one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {2}


@pytest.mark.parametrize("n_clusters", [None, 3])
def test_blas_has_one_thread_during_a_fit_of_craft(n_clusters):
    seen = set()

    def callback(progress):
        if progress.stage != "reading":
            seen.update(blas_threads())

    X = np.random.default_rng(0).normal(size=(300, 4)) + np.repeat([[0], [4], [8]], 100, axis=0)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        CRAFT(n_clusters, random_state=0).fit(X, callback=callback)
        assert blas_threads() == before
    assert seen == {1}
