"""What `import craftc` does, and what it says where the kernels are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.common import ROOT


def test_a_checkout_without_kernels_says_what_to_do(tmp_path):
    shutil.copytree(
        ROOT / "craftc", tmp_path / "craftc", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    )
    done = subprocess.run(
        [sys.executable, "-c", "import craftc"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "kernels are not built in this source tree" in done.stderr
    assert "pip install -e ." in done.stderr


def test_import_is_light_and_the_kernels_need_numpy_only():
    heavy = "{'sklearn', 'scipy', 'pandas', 'narwhals', 'matplotlib'}"
    script = (
        "import sys, craftc, craftc._kernels.craft, craftc._kernels.craft_passes; "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_a_fit_and_predictions_import_neither_dask_nor_spark():
    script = (
        "import sys, numpy as np, craftc; X = np.arange(20.0).reshape(10, 2); "
        "craftc.CRAFT().fit(X).predict(X); "
        "craftc.distributed.spark_predict(craftc.DPMeans(1e9).fit(X)); print(sorted({'dask', 'distributed', "
        "'pyspark'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_without_its_dependencies_the_package_says_so():
    script = (
        "import sys; sys.modules['sklearn'] = None; import craftc\n"
        "try:\n    craftc.CRAFT\nexcept ImportError as e:\n    print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("craftc.CRAFT needs sklearn")
    assert "`pip install craftc`" in done.stdout
