"""Random tables in twelve dialects are read as they were meant."""

from __future__ import annotations

import pytest

pytest.importorskip("pandas", reason="files are read with pandas")

from tests.fuzz.files import DIALECTS, deviations, draw


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 40), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_dialects(tmp_path, dialect, seeds):
    for seed in seeds:
        truth = draw(seed)
        assert (seed, deviations(truth, DIALECTS[dialect].write(truth), str(tmp_path))) == (seed, [])
