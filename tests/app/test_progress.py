"""The progress of a fit: in Python by a callback and by verbose, in the shell by a bar."""

from __future__ import annotations

import io
import itertools
import sys
import time

import numpy as np
import pytest
from sklearn.base import clone

from craftc import CRAFT, PaperCRAFT
from craftc.cli import main
from craftc.cli.cluster import duration
from craftc.craft import Progress, progress
from craftc.datasets import load_heart
from tests.common import ROOT, fixed_price

HEART = str(ROOT / "examples" / "heart.csv")


@pytest.fixture(scope="module")
def heart():
    return load_heart().data


def every_pass(monkeypatch):
    """Callbacks are called after every pass, however fast."""
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)


FITS = [
    CRAFT(),
    CRAFT(1),
    CRAFT(5),
    CRAFT(covariance="diagonal"),
    CRAFT(init="single"),
    fixed_price(cluster_price=20.0),
    PaperCRAFT(),
]


@pytest.mark.parametrize("estimator", FITS, ids=str)
def test_shares_rise_from_0_to_1(heart, monkeypatch, estimator):
    every_pass(monkeypatch)
    seen = []
    model = clone(estimator).set_params(random_state=0).fit(heart, callback=seen.append)
    shares = [each.share for each in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert all(isinstance(each, Progress) for each in seen)
    assert all(a.elapsed_s <= b.elapsed_s for a, b in itertools.pairwise(seen))
    assert seen[-1].remaining_s == 0.0
    assert (seen[-1].n_clusters, seen[-1].objective) == (model.n_clusters_, model.objective_)
    assert len(seen) > 10
    if estimator is FITS[0]:
        stages = list(dict.fromkeys(each.stage for each in seen))
        assert stages == [
            "reading",
            "starts",
            "crossing",
            "forced merges",
            "covariances",
            "merge path",
            "diagnostics",
            "done",
        ]
        assert len({share for share in shares if 0 < share < 1}) > 20


@pytest.mark.parametrize("estimator", [CRAFT(), fixed_price(cluster_price=20.0)], ids=str)
@pytest.mark.parametrize("n_threads", [1, 4])
def test_a_callback_changes_no_bit(heart, monkeypatch, estimator, n_threads):
    every_pass(monkeypatch)
    seen = []
    model = clone(estimator).set_params(random_state=0, n_threads=n_threads)
    watched, alone = model.fit(heart, callback=seen.append), clone(model).fit(heart)
    assert watched.labels_.tobytes() == alone.labels_.tobytes()
    assert (watched.objective_, watched.n_iter_) == (alone.objective_, alone.n_iter_)
    assert watched.feature_gains_.tobytes() == alone.feature_gains_.tobytes()


def test_large_tables(monkeypatch, capsys):
    """The starts see a sample; all rows are a stage of their own."""
    every_pass(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)) + 5.0 * rng.integers(0, 3, (20_000, 1))
    seen = []
    CRAFT(random_state=0, n_init=2, verbose=1).fit(X, callback=seen.append)
    printed = [line.split(":")[0].removeprefix("CRAFT ") for line in capsys.readouterr().out.splitlines()]
    assert sorted(printed[:2]) == ["start 1/2", "start 2/2"]  # side by side
    assert printed[2:] == ["crossing", "forced merges", "all rows", "covariances"]
    stages = list(dict.fromkeys(each.stage for each in seen))
    assert stages == [
        "reading",
        "starts",
        "crossing",
        "forced merges",
        "all rows",
        "covariances",
        "merge path",
        "diagnostics",
        "done",
    ]
    shares = [each.share for each in seen]
    assert shares == sorted(shares)


def test_calls_are_rare_and_one_at_a_time(heart):
    running, times = [], []

    def callback(_):
        times.append(time.monotonic())
        running.append(1)
        time.sleep(0.01)
        assert running == [1]
        running.clear()

    CRAFT(random_state=0, n_threads=4, n_init=40).fit(heart, callback=callback)
    between = np.diff(times[:-1])  # the last call is always made
    assert len(times) >= 3
    assert between.min() >= 0.1


@pytest.mark.parametrize("when", [0, 1, 5, -1])
@pytest.mark.parametrize("n_threads", [1, 4])
def test_an_exception_ends_the_fit(heart, monkeypatch, when, n_threads):
    """In the fitting thread and in workers, at the beginning, in a start, at the end; a fitted model stays as
    it was.
    """
    every_pass(monkeypatch)
    model = CRAFT(3, random_state=0, n_threads=n_threads).fit(heart)
    before, calls = dict(vars(model)), []

    def callback(seen):
        calls.append(seen)
        if seen.share == 1.0 if when < 0 else len(calls) > when:
            raise LookupError("enough")

    model.set_params(n_clusters=None)
    with pytest.raises(LookupError, match="enough"):
        model.fit(heart, callback=callback)
    assert when < 0 or len(calls) == when + 1
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before if name != "n_clusters")


def test_tiny_tables():
    for n in (1, 2, 9):
        seen = []
        CRAFT(random_state=0).fit(np.arange(float(n))[:, None], callback=seen.append)
        assert (seen[0].share, seen[-1].share) == (0.0, 1.0)


def test_a_callback_is_a_function(heart):
    with pytest.raises(TypeError, match="callback must be a function of one argument, got 'print'"):
        CRAFT().fit(heart, callback="print")


def test_verbose(heart, capsys):
    """One line per start and stage under the automatic price too; with 2 also one per pass, which names its
    start.
    """
    options = {"covariance": "full", "random_state": 0, "n_init": 3, "n_threads": 1}
    model = CRAFT(verbose=1, **options).fit(heart)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        *(f"CRAFT start {i}/3" for i in (1, 2, 3)),
        "CRAFT crossing",
        "CRAFT forced merges",
        "CRAFT covariances",
    ]
    assert lines[-1].startswith(f"CRAFT covariances: {model.n_clusters_} clusters, objective ")
    CRAFT(verbose=2, **options).fit(heart)
    more = capsys.readouterr().out.splitlines()
    assert [line for line in more if not line.startswith("  ")] == lines
    assert any(line.startswith("  start 3, pass ") for line in more)
    fixed_price(random_state=0, cluster_price=20.0, n_init=2, verbose=1).fit(heart)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        *(f"CRAFT start {i}/3" for i in (1, 2, 3))  # the last one from one cluster
    ]


# ---- in the shell ----


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    every_pass(monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    for argv, shown in (([], True), (["--quiet"], False)):
        monkeypatch.setattr(sys, "stderr", Terminal())
        assert main(["cluster", HEART, "--ignore", "class", *argv]) == 0
        said = sys.stderr.getvalue()
        assert ("reading" in said) == ("cluster" in said) == shown
        if shown:
            assert said.rstrip("\r").endswith("\x1b[2K")  # the bar is cleared
        assert "\x1b" not in capsys.readouterr().out


def test_no_bar_elsewhere(capsys):
    assert main(["cluster", HEART, "--ignore", "class"]) == 0
    assert capsys.readouterr().err == ""


def test_durations():
    assert [duration(seconds) for seconds in (0.2, 59.4, 60.0, 61.0, 3600.0, 4000.0)] == [
        "0 s",
        "59 s",
        "1 min",
        "1 min 1 s",
        "1 h",
        "1 h 6 min",
    ]
