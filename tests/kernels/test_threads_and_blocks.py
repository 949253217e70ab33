"""Kernels on several threads and over several blocks of rows: every call that fits make with several threads
is repeated with one, on copies of its arguments, and must write the same bits.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from craftc import CRAFT, BPMeans, ConvexClustering, DPMeans, KPrototypes, PaperCRAFT
from craftc._common import threads
from craftc._kernels import parallel
from tests.common import ROOT, random_table
from tests.fuzz import kernels as recorder
from tests.fuzz.invariants import difference

pytestmark = pytest.mark.skipif(not parallel.openmp(), reason="kernels without OpenMP have one thread")
ROWS = 5000  # five blocks of 1024 rows
CALLS = 12  # of a kernel, at most, that are repeated
_rng = np.random.default_rng(0)
GROUPS = _rng.integers(0, 6, ROWS)
NUMBERS = _rng.normal(size=(ROWS, 5)) + 4.0 * _rng.normal(size=(6, 5))[GROUPS]
WEIGHT = _rng.integers(0, 4, ROWS).astype(np.float64)
#: Fits, and kernels that they call on several threads.
FITS = {
    "CRAFT": (
        lambda: CRAFT(n_init=1, random_state=0, n_threads=3).fit(random_table(1, n=ROWS, p=3, q=3)),
        {"craft_passes.passes", "craft_splits.split_moments", "craft_merges.pair_deltas"},
    ),
    "CRAFT, weights": (
        lambda: CRAFT(n_init=1, covariance="full", random_state=0, n_threads=3).fit(
            NUMBERS, sample_weight=WEIGHT
        ),
        {"craft_passes.passes", "craft_cross_products.cross_products", "moments.accumulate"},
    ),
    "PaperCRAFT": (
        lambda: PaperCRAFT(
            cluster_price=2.0, model="paper", init=np.zeros(ROWS, int), max_clusters=9, n_threads=3
        ).fit(random_table(2, n=ROWS, p=2, q=2)),
        {"craft.assign", "craft.reassign_if_cheaper"},
    ),
    "DPMeans": (
        lambda: DPMeans(random_state=0, n_threads=3).fit(NUMBERS, sample_weight=WEIGHT),
        {"dpmeans.accumulate", "dpmeans_cuts.two_means", "dpmeans_sweep.assign"},
    ),
    "DPMeans, serial": (
        lambda: DPMeans(60.0, mode="serial", n_threads=3).fit(NUMBERS.astype(np.float32)),
        {"dpmeans_sweep.assign", "dpmeans_sweep.reassign_to_new"},
    ),
    "KPrototypes": (
        lambda: KPrototypes(4, update="batch", n_init=1, random_state=0, n_threads=3).fit(
            random_table(3, n=ROWS, p=2, q=2)
        ),
        {"kprototypes.assign"},
    ),
    "BPMeans": (
        lambda: BPMeans(300.0, n_init=1, max_features=4, random_state=0, n_threads=3).fit(NUMBERS),
        {"bpmeans_rows.left_over", "bpmeans_rows.products"},
    ),
    "ConvexClustering": (
        lambda: ConvexClustering(0.1, n_threads=3).fit(NUMBERS[:300]),
        {"covariates.edge_pass"},
    ),
}


def parameters(name):
    """Names of the parameters of a kernel, and which of them are scratch, as its source marks them."""
    module, function = name.split(".")
    [path] = (ROOT / "src").rglob(f"{module}.pyx")
    text = path.read_text(encoding="utf-8")
    block = re.findall(rf"^def {function}\((.*?)\n\)", text, re.MULTILINE | re.DOTALL)[:1]  # or on one line
    lines = re.findall(
        r"^    (?:.*[ \]])?(\w+)(?: not None)?(?:: [\w.\[\], ]+)?,(?: *# *(\w+).*)?$",
        "".join(block),
        re.MULTILINE,
    )
    return [line[0] for line in lines], {line[0] for line in lines if line[1] == "WORK"}


def calls_of(fit, monkeypatch):
    """Calls of kernels on several threads that a fit makes, as they were before they ran."""
    calls = []
    monkeypatch.setattr(threads, "SMALL_WORK", 0)  # every kernel call is shared, however small
    monkeypatch.setattr(recorder, "MOST_CALLS", CALLS)
    with recorder._recording(calls), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
    plain = [call for call in calls if "()" not in call.name and call.name[0].islower()]
    return [
        call
        for call in plain
        if call.arguments and type(call.arguments[-1]) is int and call.arguments[-1] > 1
    ]


@pytest.mark.parametrize("name", FITS)
def test_calls_on_three_threads_are_those_on_one(name, monkeypatch):
    fit, expected = FITS[name]
    compared = set()
    for call in calls_of(fit, monkeypatch):
        names, scratch = parameters(call.name)
        if names[-1:] != ["n_threads"] or len(names) != len(call.arguments):
            continue
        three, one = recorder._copied(call), recorder._copied(call)
        results = three.function(*three.arguments), one.function(*one.arguments[:-1], 1)
        assert difference(*results) is None, call.name
        for parameter, a, b in zip(names[:-1], three.arguments, one.arguments, strict=False):
            parts = ("sums", "counts") if type(a).__name__ == "Sums" else ()
            for x, y in [(a, b), *((getattr(a, part), getattr(b, part)) for part in parts)]:
                if parameter not in scratch and isinstance(x, np.ndarray):
                    assert difference(x, y) is None, f"{call.name}: {parameter}"
        compared.add(call.name)
    assert expected <= compared
