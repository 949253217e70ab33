"""Fits on partitions have the bits of the fit of the whole table, whatever the partitions."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

from craftc import CRAFT
from craftc.distributed import Partitions
from craftc.distributed.engine import SerialEngine
from craftc.table import bins
from tests.distributed.fuzz import every_split_is_tried, low_limits, sampled_encoding
from tests.distributed.same_fit import cut, differences, differences_of_levels, even, mixed, outcome

pd = pytest.importorskip("pandas")

N = 420


def numbers(dtype=np.float64, n=N):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 5, n)
    X = rng.normal(size=(n, 4)) + 5.0 * rng.normal(size=(5, 4))[group]
    X[::17, 1] = np.nan
    return X.astype(dtype)


def slanted(n=N):
    rng = np.random.default_rng(2)
    z = rng.normal(size=(n, 3)) @ np.array([[1.0, 2.0, 0.5], [0.0, 0.3, 1.0], [0.0, 0.0, 0.2]])
    return z + 8.0 * (np.arange(n) % 3)[:, None] * np.array([1.0, 0.0, -1.0])


def with_gaps(n=N):
    """The same with missing cells, which covariances expect, and an equal column."""
    X = slanted(n)
    X[np.random.default_rng(5).random(X.shape) < 0.1] = np.nan
    return np.column_stack([X, X[:, 0]])


def wide(n=N):
    """More candidate splits than are tried without screening, and more columns than rows of a sample."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 4, n)
    frame = pd.DataFrame(rng.normal(size=(n, 30)) + 3.0 * (group[:, None] == np.arange(30) % 5))
    frame.columns = [f"n{j}" for j in range(30)]
    for j in range(6):
        frame[f"c{j}"] = pd.Categorical.from_codes(
            (group * 7 + rng.integers(0, 40, n)) % 45, [f"v{i}" for i in range(45)]
        )
    return frame


TABLES = {
    "mixed": lambda: mixed(N),
    "mixed, float32": lambda: mixed(N, dtype=np.float32),
    "no missing cells": lambda: mixed(N, seed=4, missing=0.0),
    "categories": lambda: mixed(N)[["text", "ordered", "unordered", "flag"]],
    "four columns": lambda: mixed(N)[["a", "b", "text", "few"]],
    "numbers": numbers,
    "float32": lambda: numbers(np.float32),
    "slanted": slanted,
    "slanted, gaps": with_gaps,
    "wide": wide,
}
CASES = {
    "mixed": [
        {},
        {"missing": "category"},
        {"covariance": "full"},
        {"covariance": "tied"},
        {"covariance": "diagonal"},
        {"n_clusters": 3},
        {"n_clusters": 12},
        {"max_clusters": 4},
    ],
    "mixed, float32": [{}],
    "no missing cells": [{"missing": "error"}],
    "categories": [{}, {"n_clusters": 3}],
    "four columns": [{"categorical": ["text", "few"]}],
    "numbers": [{}, {"categorical": [3]}],
    "float32": [{}],
    "slanted": [{}, {"covariance": "full", "n_clusters": 2}, {"covariance": "tied"}],
    "slanted, gaps": [{}, {"covariance": "tied"}],
    "wide": [{}],
}
EACH = [(name, parameters) for name, cases in CASES.items() for parameters in cases]


@cache
def table(name):
    return TABLES[name]()


def fit(parameters, X):
    own = {"price_factor": 0.5, "n_init": 1, "random_state": 0} | parameters
    return outcome(lambda: CRAFT(**own).fit(X))


class Counted(SerialEngine):
    """An engine that counts how often each operation is asked for."""

    def __init__(self, contents):
        super().__init__(contents)
        self.asked = {}

    def _round(self, message):
        for call in message.calls:
            self.asked[call.function.__name__] = self.asked.get(call.function.__name__, 0) + 1
        return super()._round(message)


class CountedPartitions(Partitions):
    def engine(self, n_threads):
        self.last = Counted(self.contents)
        return self.last


@pytest.mark.slow_except(3)
@pytest.mark.parametrize("name", sorted(set(TABLES) - {"four columns"}))
def test_small_tables_are_gathered(name):
    X = table(name)
    here, said = fit({}, X)
    for parts in (1, 2, 7):
        far, far_said = fit({}, Partitions(cut(X, even(N, parts))))
        assert differences(far, here) + differences_of_levels(far, here) == []
        assert far_said == said


@pytest.mark.slow_except(4)
@pytest.mark.parametrize(("name", "parameters"), EACH, ids=str)
def test_large_tables_are_searched_in_their_partitions(name, parameters):
    X = table(name)
    with low_limits():
        here, said = fit(parameters, X)
        for parts in (1, 2, 7) if not parameters else (7,):
            source = CountedPartitions(cut(X, even(N, parts)))
            far, far_said = fit(parameters, source)
            assert differences(far, here) + differences_of_levels(far, here) == []
            assert far_said == said
            assert source.last.asked["moved"] > 0  # passes over all rows
            if parameters.get("max_clusters") != 4:  # as many as the sample has
                assert source.last.asked["leaving"] > 0  # large clusters are split where their rows are


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"n_clusters": 12}, {"covariance": "diagonal"}], ids=str)
def test_with_the_limits_of_users(parameters):
    X = mixed(60_000, seed=5, n_clusters=3).drop(columns="few")  # clusters of more rows than a sample has
    own = {"price_factor": 1.0, "n_init": 2, "random_state": 0} | parameters
    plain, plain_said = outcome(lambda: CRAFT(**own).fit(X))
    far, far_said = outcome(lambda: CRAFT(**own).fit(Partitions(cut(X, even(len(X), 3)))))
    assert differences(far, plain) == []
    assert far_said == plain_said
    for parts in (2, 7) if not parameters else (7,):
        source = CountedPartitions(cut(X, even(len(X), parts)))
        with every_split_is_tried():
            here, said = outcome(lambda: CRAFT(**own).fit(X))
            far, far_said = outcome(lambda: CRAFT(**own).fit(source))  # noqa: B023
        assert differences(far, here) == []
        assert far_said == said
        assert source.last.asked["leaving"] > 0
        assert source.last.asked["sides_moved"] > 0


@pytest.mark.slow
def test_long_columns_are_encoded_by_a_sample():
    n = bins.SAMPLED_ABOVE + 1000
    rng = np.random.default_rng(6)
    group = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "few": rng.integers(0, 7, n) + group,
            "spike": np.where(rng.random(n) < 0.4, 0.0, rng.normal(group, 0.1)),
        }
    )
    X["skewed"], X["plain"], X["text"] = (
        np.exp(rng.normal(group)),
        rng.normal(3.0 * group),
        np.array(["x", "y", "z"])[group],
    )
    here = CRAFT(n_init=1, random_state=0).fit(X)
    assert not here._fitted.encoding.identity
    far = CRAFT(n_init=1, random_state=0).fit(Partitions(cut(X, [0, 10, n // 3, n - 1, n])))
    assert differences(far, here) == []


def test_encodings_by_a_sample():
    X = mixed(N)
    with low_limits(), sampled_encoding(150):
        here, far = (
            CRAFT(n_init=1, random_state=0).fit(each) for each in (X, Partitions(cut(X, even(N, 3))))
        )
    assert differences(far, here) == []


# ---- partitions ----


@pytest.mark.parametrize(
    "borders",
    [[0, 0, N], [0, N, N], [0, 0, 0, N, N], [0, 1, 2, 3, N], [0, 5, 400, 401, N], [*range(20), N]],
    ids=["first empty", "last empty", "all but one empty", "one row", "uneven", "many"],
)
def test_borders(borders):
    X = table("mixed")
    with low_limits():
        here, _ = fit({}, X)
        far, _ = fit({}, Partitions(cut(X, borders)))
    assert differences(far, here) == []


def test_levels_and_columns_in_one_partition_only():
    X = mixed(N).reset_index(drop=True)
    X.loc[:99, "text"] = None  # no text at all
    X.loc[100:199, "a"] = np.nan
    X.loc[X.index < 400, "unordered"] = "v"
    X["text"] = np.where(X.index > 410, "rare", X["text"])
    parts = cut(X, [0, 100, 200, 400, N])
    with low_limits():
        here, _ = fit({}, X)
        assert differences(fit({}, Partitions(parts))[0], here) == []
        own = [
            part.assign(a=part["a"].astype(object).where(part["a"].notna(), None))
            if part["a"].isna().all()
            else part
            for part in parts
        ]
        assert differences(fit({}, Partitions(own))[0], here) == []


def test_categories_differ_between_partitions():
    X = mixed(N, missing=0.0).reset_index(drop=True)
    X["unordered"] = X["unordered"].astype(str)
    parts = [
        part.assign(unordered=part["unordered"].astype("category"))
        for part in cut(X.iloc[np.argsort(X["unordered"])], even(N, 4))
    ]
    assert len({tuple(part["unordered"].cat.categories) for part in parts}) > 1
    here, _ = fit({}, X.iloc[np.argsort(X["unordered"])])
    assert differences(fit({}, Partitions(parts))[0], here) == []


def test_columns_are_found_by_name():
    X = mixed(N)
    here, _ = fit({}, X)
    first, second = cut(X, even(N, 2))
    assert differences(fit({}, Partitions([first, second[second.columns[::-1]]]))[0], here) == []


def test_widest_numbers_of_all_partitions():
    X = numbers(np.float32)
    parts = cut(X, even(N, 2))
    mixed_types = Partitions([pd.DataFrame(parts[0]), pd.DataFrame(parts[1].astype(np.float64) + 1e-9)])
    whole = pd.concat(mixed_types.contents)
    assert differences(fit({}, mixed_types)[0], fit({}, whole)[0]) == []


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_rows(n):
    X = mixed(N, missing=0.0).iloc[:n].drop(columns=["text", "few"])
    for parameters in ({}, {"n_clusters": 2}, {"n_clusters": 4}):
        here, far = fit(parameters, X)[0], fit(parameters, Partitions(cut(X, [0, 0, 1, n])))[0]
        if isinstance(here, Exception):
            assert type(far) is type(here)
            assert str(far) == str(here)
        else:
            assert differences(far, here) == []


def test_constant_columns():
    X = mixed(N).assign(a=3.0, text="x", b=[1.0, np.nan] * (N // 2))
    assert differences(fit({}, Partitions(cut(X, even(N, 3))))[0], fit({}, X)[0]) == []


def replaced(parts, i, **columns):
    return [part.assign(**columns) if j == i else part for j, part in enumerate(parts)]


def test_errors_name_the_partition():
    X = mixed(N, missing=0.0)
    parts = cut(X, even(N, 3))
    array = cut(numbers(), even(N, 3))
    infinite = array[1].copy()
    infinite[5, 2] = np.inf
    twice = parts[2].copy()
    twice.columns = ["a", "a", *twice.columns[2:]]
    bad = {
        "text for numbers": (replaced(parts, 1, a="one"), "Partition 1: .*'a'"),
        "numbers for text": (
            replaced(parts, 2, text=3),
            "Partition 2: .*'text' holds numbers, but text in partition 0",
        ),
        "booleans for categories": (
            replaced(parts, 1, unordered=True),
            "Partition 1: .*'unordered' holds booleans",
        ),
        "dates": (replaced(parts, 1, a=pd.Timestamp("2026-01-01")), "Partition 1: .*'a'"),
        "absent": (
            [parts[0], parts[1].drop(columns="b"), parts[2]],
            "Partition 1: it lacks column 'b', which the collection has",
        ),
        "extra": (
            replaced(parts, 2, more=1.0),
            "Partition 2: it has column 'more', which the collection lacks",
        ),
        "duplicate": ([parts[0], parts[1], twice], "Partition 2: .*unique"),
        "infinite": ([array[0], infinite, array[2]], "Partition 1: .*infinity"),
        "fewer columns": (
            [array[0], array[1][:, :3], array[2]],
            "Partition 1: it has 3 columns without names",
        ),
        "array among frames": ([parts[0], array[0]], "Partition 1: it has 4 columns without names"),
        "one axis": ([array[0], array[1][:, 0]], "Partition 1: .*2D array"),
    }
    model = CRAFT(n_init=1, random_state=0).fit(X)
    before = pickle.dumps(model)
    for name, (contents, message) in bad.items():
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(Partitions(contents))
        assert pickle.dumps(model) == before, name


def test_another_version_on_a_worker_is_refused(monkeypatch):
    monkeypatch.setattr("craftc.distributed.partitions.version", lambda: "0.0.1")
    with pytest.raises(RuntimeError, match=r"A worker has craftc 0\.0\.1, and the process that fits has "):
        CRAFT(n_init=1, random_state=0).fit(Partitions(cut(mixed(60), even(60, 2))))


def test_no_rows():
    with pytest.raises(ValueError, match="empty list"):
        Partitions([])
    with pytest.raises(ValueError, match="0 sample"):
        CRAFT().fit(Partitions([mixed(5).iloc[:0]] * 2))


@pytest.mark.parametrize(
    ("parameters", "options", "message"),
    [
        ({}, {"sample_weight": np.ones(N)}, "rows without weights"),
        ({"init": np.zeros(N, int)}, {}, "init='auto'"),
        ({"init": "random"}, {}, "init='auto'"),
        ({"unusable": "drop"}, {}, "in memory"),
    ],
    ids=str,
)
def test_refused_parameters(parameters, options, message):
    X = mixed(N)
    model = CRAFT(n_init=1, random_state=0).fit(X)
    labels = model.labels_
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(Partitions(cut(X, even(N, 2))), **options)
    assert model.labels_ is labels
    assert model.merge_path_[0].n_clusters == model.n_clusters_


def test_models_do_not_hold_their_partitions():
    X = mixed(N)
    source = Partitions(cut(X, even(N, 2)))
    with low_limits():
        model = CRAFT(n_init=1, random_state=0).fit(source)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()
    assert b"craftc.distributed.engine" not in pickle.dumps(model)
    assert again.n_clusters_ == model.n_clusters_
    with pytest.raises(AttributeError, match="lie where the table of the fit was"):
        again.cut(2)


def test_labels_of_changed_content_are_refused():
    X = numbers()
    source = Partitions(cut(X, even(N, 2)))
    with low_limits():
        model = CRAFT(n_init=1, random_state=0).fit(source)
    source.contents[1][3, 0] += 1.0
    with pytest.raises(ValueError, match="Partition 1 has changed since the fit began"):
        model.cut(2)
