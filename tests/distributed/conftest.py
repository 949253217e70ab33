"""Worker processes of the tests are forked from one that has imported what they need: their imports would
take longer than the fits.

The clusters of benches/suite, which tests/conformance runs, start their workers as Dask does by default.
"""

from __future__ import annotations

import multiprocessing

import pytest

IMPORTED = [
    "distributed.nanny",
    "distributed.worker",
    "dask.dataframe",
    "craftc.distributed.dask.engine",
    "craftc.craft.estimator",
]


@pytest.fixture(scope="module", autouse=True)
def quick_workers():
    try:
        import dask
        from distributed.utils import get_mp_context
    except ImportError:  # no Dask, or an older one
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # its first call would replace the names below by those of what Dask imports
        multiprocessing.get_context("forkserver").set_forkserver_preload(IMPORTED)
        yield
