"""Fits on a Dask cluster whose workers die, join late, are slow or short of memory."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from unittest import mock

import numpy as np
import pytest

from craftc import CRAFT
from craftc.distributed.dask import engine as dask_engine
from craftc.distributed.dask.engine import DaskEngine
from craftc.distributed.dask.tasks import JobEnded, end_job, task_of
from tests.distributed.fuzz import every_split_is_tried, low_limits
from tests.distributed.same_fit import cut, differences, even, mixed

pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask", reason="pip install 'craftc[dask]'")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed", reason="pip install 'craftc[dask]'")

pytestmark = pytest.mark.slow
N = 420
CLUSTER = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}


@pytest.fixture
def client():
    """A cluster for every test, because a worker that is killed may not come back."""
    with (
        distributed.LocalCluster(**CLUSTER, memory_limit=0) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def here():
    with low_limits():
        return own().fit(table())


def table():
    return mixed(N)[["a", "b", "skewed", "text"]]


def own():
    return CRAFT(price_factor=0.5, n_init=1, random_state=0)


def lazy(read=None, parts=4):
    """A lazy table in parts, each returned by `read(number, part)` on a worker."""
    contents = cut(table(), even(N, parts))
    read = (lambda i, part: part) if read is None else read
    return dd.from_map(lambda i: read(i, contents[i]), range(parts), meta=contents[0].iloc[:0])


def differs(far, here):
    """What differs from the fit of the whole table; lazy labels are computed here, which is quicker."""
    with dask.config.set(scheduler="synchronous"):
        return differences(far, here)


def fit(X, client):
    with low_limits():
        return own().fit(X, client=client)


def pids(client):
    """Process of every worker by its address."""
    return client.run(os.getpid)


def kill(client, address):
    """Kill a worker, and wait until the scheduler knows."""
    os.kill(pids(client)[address], signal.SIGKILL)
    deadline = time.monotonic() + 30
    while address in client.nthreads() and time.monotonic() < deadline:
        time.sleep(0.02)


@contextlib.contextmanager
def before_operation(act, *names):
    """The engine acts once, before the first round in which one of these operations is asked for; yields what
    is still to be done.
    """
    plain, pending = DaskEngine._round, [act]

    def round_of(engine, message):
        if pending and {call.function.__name__ for call in message.calls} & set(names):
            pending.pop()(engine)
        return plain(engine, message)

    with mock.patch.object(DaskEngine, "_round", round_of):
        yield pending


def left_behind(client):
    def of_worker():
        with open("/proc/self/maps") as maps:
            scratch = [line for line in maps if "craftc-" in line]
        from craftc.distributed.dask import engine as dask_engine

        return list(dask_engine._fits), scratch

    gc.collect()
    return [each for found in client.run(of_worker).values() for each in found if each]


@pytest.mark.parametrize(
    "phases",
    [
        ("_encode", "moved", "reassigned"),
        ("_cells", "leaving", "statistics"),
        ("cells_of_cluster", "sides_moved"),
    ],
    ids=str,
)
def test_a_worker_is_killed_in_several_phases(client, here, phases):
    """Each time another worker, which holds partitions."""
    killed = []

    def act(engine):
        alive = [home for home in engine._home.values() if home in client.nthreads()]
        victim = sorted(alive)[len(killed) % len(alive)]
        killed.append(victim)
        kill(client, victim)

    with contextlib.ExitStack() as stack:
        stack.enter_context(every_split_is_tried())
        pending = [stack.enter_context(before_operation(act, phase)) for phase in phases]
        far = fit(lazy(), client)
    assert pending == [[]] * len(phases)
    assert differs(far, here) == []
    assert left_behind(client) == []


def test_a_worker_is_killed_while_it_reads(client, here, tmp_path):
    folder = str(tmp_path)

    def read(i, part):
        flag = f"{folder}/{i}"
        if i == 2 and not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    assert differs(fit(lazy(read), client), here) == []
    assert (tmp_path / "2").exists()


def test_a_fit_that_fails_waits_for_the_tasks_that_run(client, tmp_path):
    folder = str(tmp_path)

    def slow_partition():
        from craftc.distributed.dask import engine, tasks

        plain = engine.read_part

        def read_part(name, reading, content):
            if name == "Partition 1":
                while not os.path.exists(f"{folder}/began"):
                    time.sleep(0.01)
                raise ValueError("cannot be read")
            n_ended = len(tasks._ended)
            open(f"{folder}/began", "w").close()
            while len(tasks._ended) == n_ended:  # the driver does not know the error yet
                time.sleep(0.01)
            time.sleep(0.3)
            part = plain(name, reading, content)
            open(f"{folder}/ended", "w").close()
            return part

        engine.read_part = read_part

    client.run(slow_partition)
    with pytest.raises(ValueError, match="cannot be read"):
        fit(lazy(parts=2), client)
    assert (tmp_path / "ended").exists()
    assert left_behind(client) == []


def test_tasks_of_a_job_that_has_ended(client, tmp_path):
    """A running task stops at its next check, and one that begins later does nothing."""
    folder = str(tmp_path)

    def task(job):
        with task_of(job) as check:
            open(f"{folder}/began", "w").close()
            try:
                while True:
                    check()
                    time.sleep(0.01)
            finally:
                time.sleep(0.1)
                open(f"{folder}/ended", "w").close()

    future = client.submit(task, "job", pure=False)
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    future.cancel()
    end_job(client, "job", 60.0)
    assert (tmp_path / "ended").exists()
    (tmp_path / "began").unlink()
    assert isinstance(client.submit(task, "job", pure=False).exception(timeout=60), JobEnded)
    assert not (tmp_path / "began").exists()


def test_a_worker_leaves_with_the_results_of_a_round(client, here):
    """The results lie on the worker when it is killed, and nobody else can compute them."""
    plain, killed = DaskEngine._ended_tasks, []

    def ended(engine, pending):
        found = plain(engine, pending)
        if engine.n_rounds == 8 and found and not killed:
            distributed.wait(list(pending))
            killed.append(engine._home[pending[next(iter(found))][0]])
            kill(client, killed[0])
            return set(pending)
        return found

    with mock.patch.object(DaskEngine, "_ended_tasks", ended):
        assert differs(fit(lazy(), client), here) == []
    assert killed


def test_a_worker_joins_late(here):
    with (
        distributed.LocalCluster(**(CLUSTER | {"n_workers": 0, "processes": False})) as cluster,
        distributed.Client(cluster, set_as_default=False) as late,
    ):
        threading.Timer(1.5, cluster.scale, [1]).start()
        with before_operation(
            lambda engine: (cluster.scale(2), late.wait_for_workers(2, timeout=60)), "moved"
        ) as pending:
            assert differs(fit(lazy(), late), here) == []
        assert not pending


def test_a_slow_partition(client, here, tmp_path):
    folder = str(tmp_path)

    def read(i, part):
        if i == 1 and not os.path.exists(f"{folder}/slow"):
            open(f"{folder}/slow", "w").close()
            time.sleep(3.0)
        return part

    with mock.patch.object(dask_engine, "_PATIENCE", 1.0):
        assert differs(fit(lazy(read), client), here) == []


def test_content_that_changes_is_refused(client, tmp_path):
    folder = str(tmp_path)

    def read(i, part):
        flag = f"{folder}/{i}"
        changed = os.path.exists(flag)
        open(flag, "w").close()
        return part.assign(a=part["a"] + 1.0) if changed else part

    lost = before_operation(lambda engine: kill(client, engine._home[0]), "moved")
    with lost, pytest.raises(ValueError, match=r"Partition \d has changed since the fit began"):
        fit(lazy(read), client)
    assert left_behind(client) == []


def test_a_partition_that_kills_its_worker(client):
    def read(i, part):
        if i == 1:
            os._exit(1)
        return part

    with pytest.raises(
        RuntimeError,
        match=r"Partition [01] has been lost with its worker \d times; give the workers more memory",
    ):
        fit(lazy(read, parts=2), client)
    assert left_behind(client) == []


def test_no_worker_comes():
    with (
        distributed.LocalCluster(**(CLUSTER | {"n_workers": 0})) as cluster,
        distributed.Client(cluster, set_as_default=False) as lonely,
        mock.patch.object(dask_engine, "_PATIENCE", 1.0),
        pytest.raises(RuntimeError, match=r"cluster tcp://.* has had no worker for 1 s; start workers"),
    ):
        fit(lazy(), lonely)


def test_workers_are_paused(client):
    """Dask pauses workers whose memory is nearly full; the fit does not wait for them for ever."""

    def set_status(status):
        def on_worker(dask_worker):
            dask_worker.status = distributed.core.Status[status]

        client.run(on_worker)

    paused = before_operation(lambda engine: set_status("paused"), "moved")
    try:
        with (
            paused,
            mock.patch.object(dask_engine, "_PATIENCE", 1.0),
            pytest.raises(
                RuntimeError,
                match=r"cluster tcp://.* have been paused for 1 s, because their memory is nearly full; "
                r"give them",
            ),
        ):
            fit(lazy(), client)
    finally:
        set_status("running")
    assert left_behind(client) == []


def test_memory_limit_below_the_blocks():
    """Blocks lie in scratch files, whose pages do not count as memory of a worker."""
    n, parts, limit = 100_000, 56, 420 << 20
    assert parts * n * 20 * 8 > 2 * limit

    def read(i):
        rng = np.random.default_rng(i)
        return pd.DataFrame(rng.normal(size=(n, 20)) + 6.0 * rng.integers(0, 2, n)[:, None])

    X = dd.from_map(read, range(parts), meta=read(0).iloc[:0])
    with (
        distributed.LocalCluster(**CLUSTER, memory_limit=limit) as cluster,
        distributed.Client(cluster, set_as_default=False) as small,
    ):
        before = sorted(pids(small).values())
        model = CRAFT(n_init=1, random_state=0, covariance="diagonal", max_clusters=2).fit(X, client=small)
        assert sorted(pids(small).values()) == before  # no worker was killed
    assert model.n_clusters_ >= 2


def test_the_scheduler_is_lost():
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        cluster = distributed.LocalCluster(**(CLUSTER | {"n_workers": 1, "processes": False}))
        lost = distributed.Client(cluster, set_as_default=False)
        address = cluster.scheduler_address
        began = time.monotonic()
        try:
            with (
                before_operation(lambda engine: cluster.close(), "moved"),
                pytest.raises(ConnectionError, match=f"The Dask scheduler {address} cannot be reached"),
            ):
                fit(lazy(), lost)
        finally:
            lost.close()
            cluster.close()
        assert time.monotonic() - began < 60
