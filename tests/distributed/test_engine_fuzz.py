"""A bounded part of the fuzz of fits on partitions that are lost; `python -m tests.distributed.fuzz` runs
more.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pandas")

from tests.distributed import fuzz


@pytest.mark.slow
def test_fits_on_partitions_that_are_lost():
    assert fuzz.problems(20) == ([], 20)
    assert fuzz.COUNTS["losses"] > fuzz.COUNTS["fits"]


@pytest.mark.parametrize("seed", range(3))
def test_a_few_fits_on_partitions_that_are_lost(seed):
    assert fuzz.problem(seed) == ""
