"""Fits on Dask collections, without a cluster and on one of two processes, have the bits of the fit of the
whole table.
"""

from __future__ import annotations

import gc
import pickle
import threading

import numpy as np
import pytest

from craftc import CRAFT, load_model, save_model
from tests.distributed.fuzz import low_limits
from tests.distributed.same_fit import cut, differences, differences_of_levels, even, mixed, outcome

pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask", reason="pip install 'craftc[dask]'")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N = 420
CUTS = [[0, N], even(N, 2), even(N, 7), [0, 0, 1, 2, 300, 300, N, N]]


def lazy_frame(X, borders):
    return lazy_parts(cut(X, borders))


def lazy_parts(parts):
    return dd.from_map(lambda i: parts[i], range(len(parts)), meta=parts[0].iloc[:0])


def lazy_array(X, borders, columns=None):
    chunks = tuple(np.diff(borders).tolist()), columns or X.shape[1]
    return da.from_array(X, chunks=chunks)


def own(**parameters):
    return CRAFT(**({"price_factor": 0.5, "n_init": 1, "random_state": 0} | parameters))


def numbers(dtype=np.float64):
    X = mixed(N)[["a", "b", "c", "skewed"]].to_numpy()
    return X.astype(dtype)


# ---- without a cluster ----


@pytest.fixture
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.slow_except(3)
@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize("borders", CUTS, ids=str)
@pytest.mark.parametrize("large", [False, True])
def test_frames(borders, large):
    X = mixed(N)
    with low_limits(*((100, 40) if large else ())) if large else low_limits(1 << 14, 1 << 14):
        here, far = own().fit(X), own().fit(lazy_frame(X, borders))
    assert differences(far, here) + differences_of_levels(far, here) == []
    assert (far.labels_.compute().index == X.index).all()


@pytest.mark.usefixtures("synchronous")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [4, 3])
def test_arrays(dtype, columns):
    X = numbers(dtype)
    with low_limits():
        here, far = own().fit(X), own().fit(lazy_array(X, even(N, 3), columns))
    assert differences(far, here) + differences_of_levels(far, here) == []


@pytest.mark.usefixtures("synchronous")
def test_arrays_of_unknown_length():
    X = numbers()
    lazy = lazy_frame(pd.DataFrame(X), even(N, 3)).to_dask_array()
    assert np.isnan(lazy.shape[0])
    with low_limits():
        here, far = own().fit(X), own().fit(lazy)
    assert differences(far, here) == []


@pytest.mark.usefixtures("synchronous")
def test_known_categories_and_divisions():
    X = mixed(N)
    lazy = dd.from_pandas(X, npartitions=3)
    with low_limits():
        far = own().fit(lazy)
        here = own().fit(X)
    assert differences(far, here) == []
    assert far.labels_.divisions == lazy.divisions


@pytest.mark.usefixtures("synchronous")
def test_kinds():
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=N)
    scale = ["low", "never", "middle", "high"]
    X = pd.DataFrame({"hour": np.round(rng.normal(12.0 * group, 2.0)) % 24, "other": rng.normal(size=N)})
    level = rng.integers(0, 2, N) + group
    X["ordered"] = pd.Categorical.from_codes(level + (level > 0), scale, ordered=True)
    X["text"] = np.array(list("cab"), object)[rng.integers(0, 2, N) + group]
    X["when"] = pd.Timestamp("2026-01-01")
    kinds = {"hour": "periodic", "other": "ignore", "when": "ignore", "text": ["c", "a", "b"]}
    whole = own(kinds=kinds).fit(X)
    lazy = lazy_frame(X, even(N, 5))
    model = own(kinds=kinds).fit(lazy)
    assert model.objective_ == whole.objective_
    assert model.levels_ == whole.levels_ == [scale, ["c", "a", "b"]]
    np.testing.assert_array_equal(model.labels_.compute(), whole.labels_)
    for new in (lazy, lazy[["text", "hour", "ordered"]]):
        np.testing.assert_array_equal(model.predict(new).compute(), whole.labels_)
    numbers = X[["hour", "other"]].to_numpy()
    kinds = {0: ("periodic", 24), 1: "ignore"}
    whole = own(kinds=kinds).fit(numbers)
    model = own(kinds=kinds).fit(lazy_array(numbers, even(N, 3)))
    assert model.objective_ == whole.objective_
    for new in (numbers, numbers[:, :1]):
        found = model.predict(lazy_array(new, even(N, 3))).compute()
        np.testing.assert_array_equal(found, whole.labels_)


@pytest.mark.usefixtures("synchronous")
def test_refused_collections():
    X = mixed(N)
    model = own().fit(X)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"needs the shape \(n, D\)"):
        model.fit(da.zeros(10))
    with pytest.raises(ValueError, match="rows without weights"):
        model.fit(dd.from_pandas(X, npartitions=2), sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="in memory"):
        CRAFT(unusable="drop").fit(dd.from_pandas(X, npartitions=2))
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(lazy_frame(X, [0, 0, 0]))
    with pytest.raises(TypeError, match=r"Partition 1: .*'a'"):
        model.fit(lazy_parts([X[:9], X[9:].assign(a="one")]))
    narrow = numbers(np.float32)
    parts = [narrow[:9], narrow[9:].astype(np.float64)]
    with pytest.raises(ValueError, match=r"Partition 1: .*more digits than the float32"):
        model.fit(
            da.concatenate([da.from_delayed(dask.delayed(part), part.shape, np.float32) for part in parts])
        )
    assert pickle.dumps(model) == before


@pytest.mark.usefixtures("synchronous")
def test_sparse_partitions_are_refused():
    from scipy.sparse import csr_matrix

    X = numbers()
    lazy = lazy_array(X, even(N, 2)).map_blocks(csr_matrix)
    with pytest.raises(TypeError, match="Partition 0: Sparse data"):
        CRAFT().fit(lazy)


# ---- on a cluster ----

pytest.importorskip("distributed", reason="pip install 'craftc[dask]'")


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def remains(client):
    """What the workers hold of fits, and their scratch files."""

    def of_worker():
        import os

        from craftc.distributed.dask import engine as dask_engine

        links = []
        for each in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{each}"))
            except OSError:
                continue
        with open("/proc/self/maps") as maps:
            mapped = [line for line in maps if "craftc-" in line]
        return (
            list(dask_engine._fits),
            list(dask_engine._asked),
            [link for link in links if "craftc-" in link] + mapped,
        )

    gc.collect()
    return [each for found in client.run(of_worker).values() for each in found if each]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"covariance": "full"}], ids=str)
def test_frames_on_a_cluster(client, parameters):
    X = mixed(N)
    with low_limits():
        here = own(**parameters).fit(X)
        for borders in CUTS[::3] if not parameters else CUTS[3:]:
            far = own(**parameters).fit(lazy_frame(X, borders))
            assert differences(far, here) + differences_of_levels(far, here) == []
    assert remains(client) == []


@pytest.mark.slow
def test_fewer_partitions_than_workers_and_persisted_data(client):
    X = mixed(N)
    with low_limits():
        here = own().fit(X)
        assert differences(own().fit(lazy_frame(X, [0, N])), here) == []
        assert differences(own().fit(lazy_frame(X, CUTS[3]).persist()), here) == []


@pytest.mark.slow
def test_two_fits_at_once(client):
    tables = [mixed(N, seed=seed) for seed in (1, 2)]
    with low_limits():
        here = [own().fit(X) for X in tables]
        found = [None, None]

        def run(i):
            found[i] = own().fit(lazy_frame(tables[i], even(N, 3)), client=client)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [differences(far, each) for far, each in zip(found, here, strict=True)] == [[], []]
    assert remains(client) == []


@pytest.mark.slow
def test_a_client_that_is_not_the_current_one(client):
    from distributed import Client

    X = mixed(N)
    with (
        Client(
            processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0", set_as_default=False
        ) as other,
        low_limits(),
    ):
        far = own().fit(lazy_frame(X, even(N, 3)), client=other)
        assert other.submit(lambda: 1).result() == 1
        here = own().fit(X)
    assert differences(far, here) == []
    assert remains(client) == []


@pytest.mark.slow
def test_a_model_has_no_client(client, tmp_path):
    X = mixed(N)
    with low_limits():
        model = own().fit(lazy_frame(X, even(N, 3)))
    sent = pickle.dumps(model)
    assert b"distributed.client" not in sent
    assert b"dask" not in sent
    save_model(model, tmp_path / "model.craftc")
    for again in (pickle.loads(sent), load_model(tmp_path / "model.craftc")):
        assert (again.predict(X) == model.predict(X)).all()
    assert len(model.labels_.compute()) == N  # which the model itself still has


@pytest.mark.slow
def test_a_fit_that_fails_leaves_nothing(client):
    X = mixed(N)
    drift = lazy_parts([X[:100], X[100:200].assign(text=3.0), X[200:]])
    error, _ = outcome(lambda: own().fit(drift))
    assert "Partition 1" in str(error)
    assert remains(client) == []


@pytest.mark.slow
def test_a_fit_that_is_interrupted_leaves_nothing(client):
    X = mixed(N)

    def interrupt(progress):
        if progress.share > 0.1:
            raise KeyboardInterrupt

    with low_limits(), pytest.raises(KeyboardInterrupt):
        own(n_clusters=20).fit(lazy_frame(X, even(N, 3)), callback=interrupt)
    assert remains(client) == []
    assert not any(client.processing().values())
