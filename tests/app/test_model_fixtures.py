"""Model files of earlier versions load, and give the results that they gave when they were written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from craftc import load_model
from craftc.saved.save_and_load import _PACKAGES
from tests.app.write_model_fixtures import FOLDER, MODELS, results, table_of

FILES = sorted(path.stem for path in FOLDER.glob("*.craftc"))


@pytest.mark.parametrize("name", FILES)
def test_the_file_gives_its_results(name):
    stored = json.loads((FOLDER / f"{name}.json").read_text())
    found = results(load_model(FOLDER / f"{name}.craftc"), table_of(stored["table"]))
    for what, values in stored["results"].items():
        expected, actual = np.array(values), np.array(found[what])
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), what
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(
                actual, expected, rtol=1e-12, atol=1e-13 * np.nanmax(np.abs(expected)), err_msg=what
            )
        else:
            assert (actual == expected).all(), what


def test_the_files_are_complete():
    assert {*MODELS, "craft-2", "craft-table-2"} == set(FILES)
    assert {type(load_model(FOLDER / f"{name}.craftc")).__name__ for name in FILES} == set(_PACKAGES)
    assert all((FOLDER / f"{name}.craftc").stat().st_size < 10_000 for name in FILES)


def test_the_format_is_that_of_the_name():
    for name in FILES:
        with np.load(FOLDER / f"{name}.craftc") as archive:
            head = json.loads(archive["model"].tobytes())
        assert name.endswith(f"-{head['format_version']}")
