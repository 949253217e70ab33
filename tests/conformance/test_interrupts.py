"""Ctrl-C ends a fit within a second, wherever it is: in restarts, in long sweeps, before the first step of a
path.
"""

from __future__ import annotations

import sys

import pytest

from tests.common import run

#: Sweeps without an end: they climb by rounding, or for long.
MIXTURE = (
    "FeatureSelectionMixture(20, tol=0, merge=False, max_iter=10**6, n_init=40, n_threads={}, random_state=0)"
    ".fit(Y[:{}])"
)
FITS = {
    "restarts": "KFeatures(10, n_threads=1, random_state=0).fit(X)",
    "restarts side by side": "KFeatures(10, n_threads=2, random_state=0).fit(X)",
    "all combinations": "KFeatures(16, assignment='exact', n_threads=1, random_state=0).fit(X)",
    "new features": "BPMeans(5.0, n_threads=1, random_state=0).fit(X)",
    "collapsed": "BPMeans(5.0, collapsed=True, n_threads=1, random_state=0).fit(X)",
    "collapsed side by side": "BPMeans(5.0, collapsed=True, n_threads=2, random_state=0).fit(X[:20_000])",
    "a graph of many columns": "ConvexClustering().fit(X[:8000, :6])",
    "starts one by one": MIXTURE.format(1, 6000),
    "starts side by side": MIXTURE.format(2, 19_000),
    "rows of a start": MIXTURE.format(2, 60_000),
}


@pytest.mark.slow_except(1)
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a process here")
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_ctrl_c_ends_a_long_fit(fit):
    """None of these ends by itself soon. The time is from the signal to the exception, in seconds of the
    processor, which other work on the machine does not lengthen; two threads count twice.
    """
    script = (
        "import os, signal, threading, time, warnings, numpy as np; from craftc import *\n"
        "warnings.simplefilter('ignore')\n"
        "X, Y = (np.random.default_rng(0).normal(size=shape) for shape in ((150_000, 12), (60_000, 20)))\n"
        "at = []\n"
        "threading.Timer(1.0, lambda: (at.append(time.process_time()), os.kill(os.getpid(), "
        "signal.SIGINT))).start()\n"
        "try:\n"
        f"    {fit}\n"
        "except KeyboardInterrupt:\n"
        "    print(time.process_time() - at[0])\n"
    )
    assert float(run(script)) < (1.0 if "n_threads=1" in fit else 2.0)
