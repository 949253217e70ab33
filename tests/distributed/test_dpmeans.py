"""DP-means on partitions: the bits of the fit in memory, however the rows are cut, and whatever is lost on
the way.
"""

from __future__ import annotations

import os
import pickle
import signal
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from craftc import DPMeans, load_model, save_model
from craftc.distributed import Partitions
from craftc.distributed.dask.engine import DaskEngine
from craftc.distributed.engine import SerialEngine, read_part, rebuilt
from craftc.dpmeans.rows import partitioned as partitioned_rows
from tests.common import examples

pd = pytest.importorskip("pandas", reason="Dask frames need pandas")

N = 400
#: First rows of partitions: one; two; seven, one with a row and two with none.
CUTS = {"1": [0, N], "2": [0, 150, N], "7": [0, 0, 1, 90, 200, 200, 399, N]}

MODELS = {
    "serial": DPMeans(30.0),
    "delayed": DPMeans(30.0, mode="delayed", n_init=2),
    "few": DPMeans(12.0, max_clusters=5),
    "many": DPMeans(6.0),
    "automatic": DPMeans(),
    "automatic, delayed": DPMeans(mode="delayed"),
    "target": DPMeans(n_clusters=4),
    "farthest": DPMeans(40.0, n_clusters=None, init="farthest", max_clusters=6),
    "random labels": DPMeans(30.0, init="random", max_clusters=7, random_state=3),
    "random row": DPMeans(30.0, init="random-row", random_state=5),
    "infinite": DPMeans(np.inf),
    "stopped": DPMeans(8.0, max_iter=2),
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:DPMeans opened:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*which leave no residuals:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def clouds(seed=0, n=N, D=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, D)) + 4.0 * rng.normal(size=(9, D))[rng.integers(0, 9, n)]).astype(dtype)


def parts_of(X, cuts):
    return [X[first:last] for first, last in pairwise(cuts)]


def fitted(model, X):
    """A fit of a fresh copy with one thread."""
    return DPMeans(**model.get_params()).set_params(n_threads=1).fit(X)


def assert_same(found, expected):
    """Two models agree to the last bit."""
    labels = found.labels_.compute() if hasattr(found.labels_, "compute") else found.labels_
    assert np.asarray(labels).dtype == np.int32
    np.testing.assert_array_equal(np.asarray(labels), expected.labels_)
    for name in ("cluster_centers_", "cluster_sizes_", "objective_path_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in (
        "objective_",
        "inertia_",
        "n_iter_",
        "converged_",
        "cluster_penalty_",
        "n_clusters_",
        "n_features_in_",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    np.testing.assert_array_equal(found._moments.variances, expected._moments.variances)
    assert found.summary().equals(expected.summary())


# ---- the bits of the fit in memory ----


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", MODELS)
def test_partitions_of_this_process(name, cuts):
    X = clouds(dtype=np.float32 if name in ("few", "automatic") else np.float64)
    assert_same(fitted(MODELS[name], Partitions(parts_of(X, CUTS[cuts]))), fitted(MODELS[name], X))


@pytest.mark.parametrize("D", [1, 70])
@pytest.mark.parametrize("mode", ["serial", "delayed"])
def test_few_and_many_columns(mode, D):
    """Of many columns and clusters, rows are compared with few centres alone."""
    X = (
        np.random.default_rng(D).normal(size=(N, D))
        + 3.0 * np.random.default_rng(1).normal(size=(40, D))[np.arange(N) % 40]
    )
    model = DPMeans(1.8 * D, mode=mode, max_clusters=45)
    assert_same(fitted(model, Partitions(parts_of(X, CUTS["7"]))), fitted(model, X))


@pytest.mark.parametrize("page", [1, 3, 50])
def test_pages_of_rows_that_may_open_a_cluster(page, monkeypatch):
    X = clouds(2)
    expected = [fitted(model, X) for model in (MODELS["many"], MODELS["few"])]
    monkeypatch.setattr(partitioned_rows, "_PAGE", page)
    monkeypatch.setattr(partitioned_rows, "_FEWEST_OF_PAGE", 1)
    for model, one in zip((MODELS["many"], MODELS["few"]), expected, strict=True):
        assert_same(fitted(model, Partitions(parts_of(X, CUTS["7"]))), one)


def test_more_rows_beyond_lambda_than_a_page_holds():
    X = np.random.default_rng(0).uniform(0.0, 20.0, (24_000, 2))
    model = DPMeans(2.0, max_iter=3)
    expected = fitted(model, X)
    assert expected.n_clusters_ > 100
    assert_same(fitted(model, Partitions(parts_of(X, [0, 15_000, 15_001, 24_000]))), expected)


@pytest.mark.parametrize("mode", ["serial", "delayed"])
def test_equal_distances(mode):
    """Rows on a grid are as near to several centres; they keep their own."""
    X = np.random.default_rng(0).integers(0, 5, (N, 2)).astype(float)
    for penalty in (2.0, 4.0, 8.0):
        model = DPMeans(penalty, mode=mode)
        assert_same(fitted(model, Partitions(parts_of(X, CUTS["7"]))), fitted(model, X))


@pytest.mark.parametrize("mode", ["serial", "delayed"])
def test_the_first_of_the_furthest_rows_opens_the_cluster(mode):
    X = np.array([[0.0], [-5.0], [0.0], [5.0]])
    model = DPMeans(4.0, mode=mode, max_clusters=2)
    found = fitted(model, Partitions([X[:1], X[1:2], X[2:]]))
    assert_same(found, fitted(model, X))
    assert found.labels_.tolist() == [0, 1, 0, 0]


def test_a_long_table_is_chosen_by_the_same_sample():
    X = clouds(1, 20_000, 3)
    assert_same(
        fitted(DPMeans(random_state=2), Partitions(parts_of(X, [0, 7, 9000, 20_000]))),
        fitted(DPMeans(random_state=2), X),
    )


@pytest.mark.parametrize("penalty", [7.0, 30.0, 1e4])
def test_serial_sweeps_of_a_long_table_start_at_the_same_leaders(penalty):
    X = clouds(6, 30_000, 3, dtype=np.float32)
    model = DPMeans(penalty, random_state=0)
    assert_same(fitted(model, Partitions(parts_of(X, [0, 9_000, 9_001, 30_000]))), fitted(model, X))


def test_constant_columns_and_equal_rows():
    for X in (
        np.full((9, 2), 1e4 + 0.1),
        np.array([[0.1, 1e4 + 1 / 3]]),
        np.c_[clouds()[:, :2], np.full(N, 7.0)],
    ):
        cuts = [0, 0, len(X) // 2, len(X)]
        for model in (DPMeans(), DPMeans(9.0)):
            assert_same(fitted(model, Partitions(parts_of(X, cuts))), fitted(model, X))


def test_numbers_of_other_types():
    for dtype in (np.int16, np.float16, np.int64):
        X = (clouds() * 10).astype(dtype)
        model = DPMeans(3000.0)
        assert_same(fitted(model, Partitions(parts_of(X, CUTS["2"]))), fitted(model, X))


def test_a_refit_forgets_what_the_first_fit_was():
    X = clouds()
    model = DPMeans(30.0, covariance="full-sized", n_threads=1).fit(pd.DataFrame(X, columns=list("abcde")))
    model.set_params(covariance="spherical").fit(Partitions(parts_of(X, CUTS["2"])))
    assert not hasattr(model, "covariances_")
    assert not hasattr(model, "feature_names_in_")
    assert_same(model, fitted(DPMeans(30.0), X))


# ---- labels ----


def test_the_labels_follow_from_the_last_centres_alone():
    """They are made again without the sweeps before."""
    made = []

    class Counted(Partitions):
        def labels(self, output, entries):
            made.append(len(entries))
            return super().labels(output, entries)

    for model in (MODELS["serial"], MODELS["delayed"], MODELS["stopped"]):
        assert_same(fitted(model, Counted(parts_of(clouds(), CUTS["2"]))), fitted(model, clouds()))
    assert made == [1, 1, 1]


def test_labels_that_do_not_follow_from_the_last_centres(monkeypatch):
    monkeypatch.setattr(partitioned_rows, "MOST_GIVEN", -1)
    for name in ("serial", "delayed", "random labels", "automatic"):
        assert_same(
            fitted(MODELS[name], Partitions(parts_of(clouds(), CUTS["7"]))), fitted(MODELS[name], clouds())
        )


# ---- partitions that are lost ----


class LossyEngine(SerialEngine):
    """An engine whose workers lose partitions between rounds; these are read again."""

    def __init__(self, contents, rng, chance):
        super().__init__(contents)
        self.rng, self.chance, self.n_lost = rng, chance, 0

    def _round(self, message):
        self.n_rounds += 1
        results = []
        for i, part in enumerate(self.parts):
            if self.rng.random() < self.chance:
                self.n_lost += 1
                self.parts[i] = read_part(i, self.reading, self.contents[i])
                results.append(rebuilt(self.parts[i], *self.everything(message, i)))
            else:
                results.append(self.one(part, message.for_partition(i)))
        return results

    @staticmethod
    def one(part, message):
        return rebuilt(part, [], message)


class LossyPartitions(Partitions):
    def __init__(self, contents, rng, chance):
        super().__init__(contents)
        self.rng, self.chance = rng, chance

    def engine(self, n_threads):
        self.used = LossyEngine(self.contents, self.rng, self.chance)
        return self.used


def check_random_borders(seed):
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(1, 120)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, D)) + 3.0 * rng.normal(size=(4, D))[rng.integers(0, 4, n)]
    if seed % 3 == 0:
        X = np.rint(X)
    X = X.astype([np.float64, np.float32][seed % 2])
    cuts = [0, *np.sort(rng.integers(0, n + 1, rng.integers(0, 7))).tolist(), n]
    name = sorted(MODELS)[seed % len(MODELS)]
    partitions = LossyPartitions(parts_of(X, cuts), rng, [0.0, 0.1, 0.5][seed % 3])
    assert_same(fitted(MODELS[name], partitions), fitted(MODELS[name], X))
    return partitions.used.n_lost


def test_random_borders_and_losses():
    assert sum(check_random_borders(seed) for seed in range(36)) > 20


@pytest.mark.slow
def test_many_random_borders_and_losses():
    for seed in range(36, 36 + examples(150).max_examples):
        check_random_borders(seed)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mode": "collapsed"}, "mode='auto', 'serial' or 'delayed'"),
        ({"polish": True}, "polish=False"),
        ({"covariance": "full"}, "covariance='spherical'"),
        ({"covariance": np.eye(5)}, "covariance='spherical'"),
        ({"init": np.zeros(N, int)}, "init='auto'"),
        ({"init": "best"}, "init must be one of"),
        ({"n_init": 3}, "n_init=1 or mode='delayed'"),
    ],
)
def test_parameters_that_need_the_rows_in_memory(parameters, message):
    model = DPMeans(30.0).fit(clouds(3))
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(Partitions([clouds()]))
    assert {name: value for name, value in vars(model).items() if name not in parameters} == {
        name: value for name, value in before.items() if name not in parameters
    }


def test_input_that_is_refused():
    X = clouds()
    with pytest.raises(ValueError, match="repeat rows"):
        DPMeans().fit(Partitions([X]), sample_weight=np.ones(N))
    for wrong, message in ((np.nan, "missing"), (np.inf, "infinit")):
        hurt = X.copy()
        hurt[300, 2] = wrong
        with pytest.raises(ValueError, match=message):
            DPMeans().fit(Partitions(parts_of(hurt, CUTS["2"])))
    with pytest.raises(ValueError, match="scale it down"):
        DPMeans().fit(Partitions([X, X * 1e200]))
    with pytest.raises(ValueError, match="0 sample"):
        DPMeans().fit(Partitions([X[:0]]))
    with pytest.raises((TypeError, ValueError), match="'b'"):
        DPMeans().fit(Partitions([pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})]))


def test_errors_name_the_columns_of_the_partitions():
    """Not those of a former fit."""
    model = DPMeans(30.0).fit(pd.DataFrame({"former": [1.0, 2.0]}))
    parts = [pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 1e200]})]
    with pytest.raises(ValueError, match="Column 'b' ranges from 1 to 1e\\+200"):
        model.fit(Partitions(parts))


def test_warnings_name_the_line_of_the_caller():
    scaled = clouds() * np.array([1e4, 1, 1, 1, 1]) + 100.0
    with pytest.warns(UserWarning, match="Columns differ in scale") as raised:
        DPMeans(1e9).fit(Partitions([scaled]))
    assert raised[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="stopped after 1 sweeps") as raised:
        DPMeans(30.0, max_iter=1).fit(Partitions([clouds()]))
    assert raised[0].filename == __file__


# ---- Dask ----


@pytest.fixture
def dask_modules():
    dask = pytest.importorskip("dask", reason="pip install 'craftc[dask]'")
    array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    with dask.config.set(scheduler="synchronous"):
        yield array, frame


def frame_in_parts(dd, X, cuts):
    """A Dask frame with an index of its own and known divisions."""
    table = pd.DataFrame(X, columns=list("abcde"), index=pd.Index(np.arange(len(X)) * 2, name="key"))
    parts = [table.iloc[first:last] for first, last in pairwise(cuts)]
    divisions = [*(2 * first for first in cuts[:-1]), 2 * len(X) - 2]
    return table, dd.from_map(lambda i: parts[i], range(len(parts)), meta=table.iloc[:0], divisions=divisions)


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", ["serial", "delayed", "automatic"])
def test_dask_without_a_cluster(dask_modules, name, cuts):
    da, dd = dask_modules
    X = clouds(4)
    table, frame = frame_in_parts(dd, X, CUTS[cuts])
    expected = fitted(MODELS[name], table)
    found = fitted(MODELS[name], frame)
    assert_same(found, expected)
    assert found.labels_.divisions == frame.divisions
    pd.testing.assert_index_equal(found.labels_.compute().index, table.index)
    assert found.feature_names_in_.tolist() == list("abcde")
    sizes = tuple(int(n) for n in np.diff(CUTS[cuts]))
    of_array = fitted(MODELS[name], da.concatenate([da.from_array(part) for part in parts_of(X, CUTS[cuts])]))
    assert_same(of_array, fitted(MODELS[name], X))
    assert of_array.labels_.shape == (sum(sizes),)


def test_copies_and_files_leave_the_labels_behind(dask_modules, tmp_path):
    da, _ = dask_modules
    X = clouds()
    model = DPMeans(30.0).fit(da.from_array(X, chunks=(150, 5)))
    save_model(model, tmp_path / "model.craftc")
    copy, loaded = pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.craftc")
    save_model(copy, tmp_path / "copy.craftc")
    for other in (copy, loaded, load_model(tmp_path / "copy.craftc")):
        assert not hasattr(other, "labels_")
        np.testing.assert_array_equal(other.predict(X), model.labels_.compute())
        assert other.objective_ == model.objective_


@pytest.mark.slow
def test_dask_on_two_workers(monkeypatch):
    """The last fit loses a worker on the way."""
    distributed = pytest.importorskip("distributed", reason="pip install 'craftc[dask]'")
    da = pytest.importorskip("dask.array")
    X, fitted_here = clouds(5, 2400), {}
    rows = da.from_array(X, chunks=(400, 5))
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        for name in ("serial", "delayed"):
            fitted_here[name] = fitted(MODELS[name], X)
            assert_same(DPMeans(**MODELS[name].get_params()).fit(rows, client=client), fitted_here[name])
        one = sorted(client.run(os.getpid).values())[0]
        killed = []

        def round_after_a_loss(engine, message):
            if engine.n_rounds == 8 and not killed:
                os.kill(one, signal.SIGKILL)
                killed.append(one)
            return round_of(engine, message)

        round_of = DaskEngine._round
        monkeypatch.setattr(DaskEngine, "_round", round_after_a_loss)
        assert_same(DPMeans(**MODELS["serial"].get_params()).fit(rows, client=client), fitted_here["serial"])
        assert killed
