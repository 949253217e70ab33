"""Cells of several numbers: blood pressures, coordinates, dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc.cli import main

pd = pytest.importorskip("pandas", reason="files are read with pandas")

RNG = np.random.default_rng(0)
N = 300
GROUP = RNG.integers(0, 2, N)
HIGH = RNG.normal(np.where(GROUP, 155, 120), 8).round().astype(int)
LOW = RNG.normal(np.where(GROUP, 98, 78), 6).round().astype(int)
OTHER = RNG.normal(size=N).round(2)


def read(cells, **options):
    return craftc.read_table(pd.DataFrame({"x": list(cells), "y": OTHER[: len(cells)]}), **options)


@pytest.mark.parametrize(
    "form", ["{}/{}", "{} / {} mmHg", "{}, {}", "({}; {})", "{} x {} cm", "{} ± {}", "{}+{}", "{} ({}%)"]
)
def test_two_numbers_become_two_columns(form):
    table = read([form.format(*each) for each in zip(HIGH, LOW, strict=True)])
    assert list(table) == ["x 1", "x 2", "y"]
    assert table["x 1"].tolist() == HIGH.tolist()
    assert table["x 2"].tolist() == LOW.tolist()
    assert "'x' holds several numbers in a cell: one column for each, 'x 1', 'x 2'" in table.attrs["notes"][0]


def test_coordinates_have_signs_and_decimals():
    pairs = list(zip(OTHER * 20, OTHER[::-1] * 9, strict=True))
    table = read([f"{a:.3f}, {b:.3f}" for a, b in pairs])
    np.testing.assert_allclose(table[["x 1", "x 2"]], pairs, atol=6e-4)


def test_groups_in_blood_pressures_are_found_and_new_rows_are_read_alike():
    table = read([f"{high}/{low}" for high, low in zip(HIGH, LOW, strict=True)])
    model = craftc.CRAFT(random_state=0).fit(table)
    assert craftc.metrics.purity(GROUP, model.labels_) > 0.95
    new = read(["118/76", "160/101", "unknown", None], like=model)
    np.testing.assert_array_equal(new["x 1"], [118, 160, np.nan, np.nan])
    assert "1 cell that cannot be read became missing: 'unknown'" in new.attrs["notes"][0]
    assert model.predict(new)[0] != model.predict(new)[1]
    empty = pd.DataFrame({"x": [np.nan, np.nan], "y": [0.0, 1.0]})
    assert craftc.read_table(empty, like=model)["x 2"].isna().all()


@pytest.mark.parametrize(
    "cells",
    [
        [f"{i}-555-{i * 7 % 9000:04d}" for i in range(200, 260)],
        [f"10.0.{i % 9}.{i}" for i in range(60)],
        [f"{a}-{a + 4}" for a in range(15, 75)],
        [f"{i % 5}/{i % 3}" for i in range(60)],
        [f"{i:03d}/{i * 7}" for i in range(60)],
        [f"Room {i} {i % 5}" for i in range(60)],
    ],
)
def test_codes_ranges_and_categories_stay_texts(cells):
    table = read(cells, on_unusable="keep")
    assert table["x"].tolist() == cells


def test_the_command_line_says_how_cells_are_kept(tmp_path, capsys):
    path = tmp_path / "t.csv"
    cells = [f"{high}/{low}" for high, low in zip(HIGH, LOW, strict=True)]
    pd.DataFrame({"bp": cells, "y": OTHER}).to_csv(path, index=False)
    assert main(["cluster", str(path), "--json", "--ignore", "bp 2"]) == 0
    said = capsys.readouterr().out
    assert "--categorical 'bp' keeps the cells whole" in said
    assert '"bp 1"' in said
    assert '"bp 2": "--ignore"' in said


def test_cells_are_kept_whole_on_request():
    cells = [f"{high}/{low}" for high, low in zip(HIGH, LOW, strict=True)]
    assert "x" in read(cells, split=[], on_unusable="keep")
