"""Benchmarks never rot: each one of benches/suite runs once, at its smallest parameters; none is missing; the
gate decides as it says.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import craftc

pytest.importorskip("pandas", reason="the suite builds tables from pandas frames")

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "benches" / "suite"
KINDS = ("time_", "timeraw_", "peakmem_", "track_")
CONFIG = json.loads((ROOT / "benches" / "asv.conf.json").read_text(encoding="utf-8"))

# where the time, the peak memory and the objective of an estimator are measured
ESTIMATORS = {
    "BPMeans": ["bpmeans.Fit"],
    "CRAFT": ["estimators.Price", "estimators.Heart"],
    "ConvexClustering": ["covariates.Rows", "covariates.Solvers"],
    "ConvexCovariateClustering": ["covariates.Path"],
    "DPMeans": ["dpmeans.Fit", "dpmeans.Asked"],
    "FeatureSelectionMixture": ["mixture.Fit", "mixture.Kinds"],
    "GraphSpectralFeatures": ["spectral.Fit", "spectral.Options"],
    "KFeatures": ["bpmeans.LongTable", "bpmeans.Start"],
    "KModes": ["kprototypes.Fit"],
    "KPrototypes": ["kprototypes.Fit"],
    "PaperCRAFT": ["estimators.Mixed", "estimators.Price"],
}
KERNELS = {  # where the hot steps of a kernel module are timed alone
    "bpmeans": ["bpmeans.Sweep"],
    "bpmeans_collapsed": ["bpmeans.Fit"],
    "bpmeans_fit": ["bpmeans.Sweep"],  # the least squares fit after each sweep
    "bpmeans_rows": ["bpmeans.Rows"],
    "bpmeans_start": ["bpmeans.Start"],
    "covariates": ["covariates.EdgePass", "covariates.Steps"],
    "craft": ["kernels.Assign", "kernels.Refit"],
    "craft_covariance": ["kernels.Covariances"],
    "craft_cross_products": ["kernels.Covariances"],
    "craft_factor": ["kernels.Covariances"],
    "craft_masks": ["kernels.Automatic"],
    "craft_merges": ["kernels.Automatic"],
    "craft_passes": ["kernels.Automatic"],
    "craft_pooled": ["kernels.Automatic"],
    "craft_price": ["kernels.Automatic"],
    "craft_rows": ["kernels.Rows"],
    "craft_seeding": ["kernels.Automatic"],
    "craft_shared": ["kernels.Levels"],
    "craft_sharing": ["kernels.Automatic"],
    "craft_splits": ["kernels.Automatic", "kernels.Wide"],
    "dpmeans": ["dpmeans.Distances", "dpmeans.NewRows"],
    "dpmeans_cuts": ["dpmeans.Distances"],
    "dpmeans_sweep": ["dpmeans.Sweep", "dpmeans.Fit"],
    "embed": ["embed.Nearest", "embed.CraftAssign"],
    "kprototypes": ["kprototypes.Pass"],
    "mixture": ["mixture.Sweep"],
    "mixture_full": ["mixture.Switches"],
    "mixture_moves": ["mixture.Moves"],
    "mixture_scores": ["mixture.Sweep"],
    "mixture_split": ["mixture.Halves"],
    "mixture_start": ["mixture.Seeds"],
    "mixture_updates": ["mixture.Sweep"],
    "moments": ["kernels.Accumulate", "kernels.Levels"],
    "multinomial": ["covariates.SparseLoss"],
    "spectral": ["spectral.Likelihood"],
    "spectral_factor": ["spectral.Factorisation", "spectral.HalsSweeps"],
    "team": ["mixture.Fit"],
}
NOTHING_HOT = {"parallel", "random"}  # answers questions about the build; draws few numbers


def module_of(stem):
    return importlib.import_module(f"benches.suite.{stem}")


def found():
    """Everything asv would run, as (class, method) or (None, function), with its name as asv has it."""
    for path in sorted(SUITE.glob("[!_]*.py")):
        module = module_of(path.stem)
        for name, thing in vars(module).items():
            if name.startswith("_"):
                continue
            if inspect.isclass(thing):  # asv takes imported classes, too
                for method in filter(lambda method: method.startswith(KINDS), dir(thing)):
                    yield pytest.param(thing, method, id=f"{path.stem}.{name}.{method}")
            elif name.startswith(KINDS):
                yield pytest.param(None, thing, id=f"{path.stem}.{name}")


FOUND = list(found())
NAMES = [each.id for each in FOUND]


@pytest.fixture(scope="module")
def prepare():
    """A benchmark of a class and its smallest parameters, set up once for the methods that follow each other:
    clusters start slowly.
    """
    held = []

    def end():
        for benchmark, smallest in held:
            getattr(benchmark, "teardown", lambda *_: None)(*smallest)
        held.clear()

    def prepared(cls):
        if not held or type(held[0][0]) is not cls:
            end()
            params = getattr(cls, "params", ())
            assert len(getattr(cls, "param_names", ())) == len(params)
            benchmark, smallest = cls(), [values[0] for values in params]
            importlib.import_module(cls.__module__).setup(
                *smallest
            )  # skips where the commit lacks something: this one lacks nothing
            benchmark.setup(*smallest)
            held.append((benchmark, smallest))
        return held[0]

    yield prepared
    end()


@pytest.mark.slow_except(12)
@pytest.mark.parametrize(("cls", "method"), FOUND)
def test_benchmark_runs(cls, method, prepare):
    if cls is None:
        subprocess.run([sys.executable, "-c", method()], cwd=ROOT, check=True)
        return
    benchmark, smallest = prepare(cls)
    result = getattr(benchmark, method)(*smallest)
    assert (result is not None) == method.startswith("track_")


def test_names_are_found_once():
    assert len(set(NAMES)) == len(NAMES) > 100


@pytest.mark.parametrize(
    "name", sorted(name for name in craftc.__all__ if isinstance(getattr(craftc, name), type))
)
def test_estimator_is_measured(name):
    if not issubclass(getattr(craftc, name), BaseEstimator):
        assert name not in ESTIMATORS
        return
    own = [method.rsplit(".", 1)[1] for method in NAMES if method.rsplit(".", 1)[0] in ESTIMATORS[name]]
    assert {"time_fit", "peakmem_fit", "track_objective"} <= set(own)


def test_kernels_are_timed_alone():
    stems = {path.stem for path in (ROOT / "craftc" / "_kernels").glob("*.pyi")}
    assert stems - NOTHING_HOT == set(KERNELS)
    for classes in KERNELS.values():
        for each in classes:
            assert any(name.startswith(f"{each}.time_") for name in NAMES), each


def test_asv_finds_its_way():
    assert (ROOT / "benches" / CONFIG["repo"]).resolve() == ROOT
    assert (ROOT / "benches" / CONFIG["benchmark_dir"]).resolve() == SUITE


@pytest.mark.parametrize("name", NAMES)
def test_one_threshold_for_each(name):
    """asv takes the largest that matches, and 5 % where none does."""
    thresholds = CONFIG["regressions_thresholds"]  # asv ignores any other spelling without a word
    assert sum(re.match(pattern, name) is not None for pattern in thresholds) == 1
    undirected = any(re.match(pattern, name) for pattern in CONFIG["regressions_first_commits"])
    assert undirected == name.rsplit(".", 1)[1].startswith(("track_n_clusters", "track_n_features"))


class TestTools:
    def test_a_missing_import_skips(self):
        new = module_of("tools").Imports()
        with new:
            from craftc import NotThereYet  # noqa: F401
        with pytest.raises(NotImplementedError, match="NotThereYet"):
            new.setup("any", "parameters")

    def test_other_errors_are_seen(self):
        with pytest.raises(ZeroDivisionError), module_of("tools").Imports():
            1 / 0  # noqa: B018

    def test_a_replay_starts_where_the_call_did(self, monkeypatch):
        module, given = importlib.import_module("craftc._kernels.dpmeans"), []

        def double(array, out):
            given.append(out[0])
            out[:] = 2 * array + out

        monkeypatch.setattr(module, "update_nearest", double)
        out = np.ones(3)

        def fit():
            for _ in range(2):
                module.update_nearest(np.arange(3.0), out)
                out[0] += 5

        replay = module_of("tools").Replay("dpmeans.update_nearest", fit)
        assert module.update_nearest is double
        for _ in range(2):
            replay.ready()()
        assert given == [1.0, 6.0] * 3

    def test_nothing_to_replay(self):
        tools = module_of("tools")
        with pytest.raises(NotImplementedError, match=r"no dpmeans\.not_there"):
            tools.Replay("dpmeans.not_there", list)
        with pytest.raises(NotImplementedError, match=r"no call of dpmeans\.gaps"):
            tools.Replay("dpmeans.gaps", list)

    def test_copies_lie_on_cache_lines(self):
        array = np.arange(24.0).reshape(2, 3, 4)[:, ::2]
        copy = module_of("tools").aligned_copy(array)
        assert copy.ctypes.data % 64 == 0
        assert copy.flags.c_contiguous
        np.testing.assert_array_equal(copy, array)


class TestGate:
    gate = importlib.import_module("benches.compare")
    limits = gate.Limits(ratio=1.15, seconds=100e-6, memory_ratio=1.1, bytes=5e6, objective=1e-9)

    def verdict(self, name, base, head):
        """Of values, or of (median, lower quartile, upper quartile)."""
        old, new = (
            self.gate.Measured(*(value if isinstance(value, tuple) else (value,))) for value in (base, head)
        )
        return self.gate.verdict(name, old, new, self.limits)

    @pytest.mark.parametrize(
        ("base", "head", "expected"),
        [
            (1e-3, 1.5e-3, "slower"),
            (1e-3, 1.14e-3, ""),  # the floor is passed, the ratio is not
            (1e-4, 1.9e-4, ""),  # the ratio is passed, the floor is not
            (1e-4, 2.1e-4, "slower"),
            (1.0, 1.14, ""),
            (1.5e-3, 1e-3, "faster"),
            (1.9e-4, 1e-4, ""),
        ],
    )
    def test_times(self, base, head, expected):
        for name in ("kernels.Assign.time_a(1, 'b')", "imports.timeraw_import_craft"):
            assert self.verdict(name, base, head) == expected

    def test_a_neighbour_lengthens_some_samples(self):
        name, base = "kernels.Assign.time_a", (1e-3, 0.99e-3, 1.2e-3)
        assert self.verdict(name, base, (1.5e-3, 1.01e-3, 1.9e-3)) == ""
        assert self.verdict(name, base, (1.5e-3, 1.37e-3, 1.9e-3)) == ""
        assert self.verdict(name, base, (1.5e-3, 1.39e-3, 1.9e-3)) == "slower"
        assert self.verdict(name, (1.5e-3, 1.39e-3, 1.9e-3), base) == "faster"
        assert self.verdict(name, (1.5e-3, 1.37e-3, 1.9e-3), base) == ""

    @pytest.mark.parametrize(
        ("base", "head", "expected"),
        [
            (100e6, 104.9e6, ""),
            (100e6, 112e6, "higher"),
            (20e6, 24e6, ""),
            (20e6, 26e6, "higher"),
            (112e6, 100e6, "lower"),
        ],
    )
    def test_memory(self, base, head, expected):
        assert self.verdict("mixture.Fit.peakmem_fit", base, head) == expected

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    @pytest.mark.parametrize(
        "name", ["dpmeans.Fit.track_objective('16 columns', False)", "spectral.Factorisation.track_residual"]
    )
    def test_objectives(self, name, sign):
        base = sign * 1234.5
        assert self.verdict(name, base, base) == ""
        assert self.verdict(name, base, base + 1e-7) == ""
        assert self.verdict(name, base, base + 1e-5) == "higher"
        assert self.verdict(name, base, base - 1e-5) == "lower"
        assert self.verdict(name, 0.0, 1e-300) == "higher"

    def test_other_tracks_are_for_the_dashboard(self):
        assert self.verdict("dpmeans.Fit.track_n_iter", 3.0, 300.0) == ""
        assert self.verdict("covariates.Path.track_gap", 1e-9, 1e-7) == ""

    def test_what_runs_no_more(self):
        for name in ("kernels.Assign.time_a", "dpmeans.Fit.track_n_iter"):
            assert self.verdict(name, 1.0, None) == self.verdict(name, 1.0, math.nan) == "failed"
            assert self.verdict(name, None, 1.0) == self.verdict(name, math.nan, math.nan) == ""

    def test_a_table_of_two_commits(self):
        at = self.gate.Measured
        base = {
            "a.time_x('p|q')": at(1e-3),
            "a.time_y": at(2.0),
            "a.track_objective": at(-7.0),
            "a.time_old": at(1.0),
            "b.time_z": at(1.0),
        }
        head = {
            "a.time_x('p|q')": at(2e-3),
            "a.time_y": at(1.0),
            "a.track_objective": at(-6.0),
            "a.time_old": at(None),
        }
        head |= {"b.time_z": at(1.0), "c.time_new": at(9.0)}
        base["c.time_part"] = at(9.0)
        lines = self.gate.compare(base, head, self.limits)
        assert [line.verdict for line in lines] == ["failed", "slower", "faster", "higher", ""]
        text = self.gate.table(lines, self.limits)
        assert "3 of 5 benchmarks are worse" in text
        assert "| slower | `a.time_x('p\\|q')` | 1 ms | 2 ms | 2.00 |" in text
        assert "| failed | `a.time_old` | 1 s | failed |  |" in text
        assert text.index("time_old") < text.index("time_y")
        assert "time_z" not in text
        assert [
            re.search(pattern, "a.time_x('p|q')") is not None for pattern in self.gate.patterns(lines)
        ] == [False, True, False]
        assert "None of 1 benchmarks is worse" in self.gate.table(lines[-1:], self.limits)

    def test_without_results(self, monkeypatch, tmp_path):
        pytest.importorskip("asv", reason="reads what asv stored")
        config = tmp_path / "asv.conf.json"
        config.write_text(json.dumps(CONFIG), encoding="utf-8")
        monkeypatch.setattr(self.gate, "CONFIG", config)
        with pytest.raises(SystemExit, match="no machine"):
            self.gate.measured("0" * 40)

    @pytest.mark.skipif(shutil.which("git") is None, reason="git names the commits")
    def test_an_unknown_commit(self):
        with pytest.raises(SystemExit, match="git knows no commit 'not-there'"):
            self.gate.full_hash("not-there")
