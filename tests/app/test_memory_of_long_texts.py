"""Memory of a table whose columns of text have tens of thousands of levels, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pandas", reason="files are read with pandas")

if not Path("/proc/self/status").exists():
    pytest.skip("needs /proc/self/status of Linux, for the peak of a process", allow_module_level=True)

PROGRAM = """
import sys, warnings
import numpy as np, pandas as pd, craftc
g = np.random.default_rng(0)
n = 40_000
table = pd.DataFrame({
    "name": [f"n{i}" for i in g.integers(0, 5 * n, n)], "street": [f"s{i}" for i in g.integers(0, 5 * n, n)],
    "kind": g.choice(list("abc"), n), "age": g.integers(18, 90, n),
})
warnings.simplefilter("ignore")
table = craftc.read_table(table) if sys.argv[1] == "read" else table
model = craftc.CRAFT(random_state=0, n_threads=2).fit(table)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # not of the parent
print(model.n_clusters_, int(peak.split()[1]) / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["read", "fit"])
def test_names_and_streets(how):
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    ).stdout
    n_clusters, mebibytes = out.split()
    assert int(n_clusters) == 1
    assert float(mebibytes) < 500.0
