"""Several files, folders and patterns as one table, and rows in other forms than a frame."""

from __future__ import annotations

import json

import numpy as np
import pytest

import craftc
from craftc.cli import main

pd = pytest.importorskip("pandas", reason="files are read with pandas")

RNG = np.random.default_rng(0)
OLD = RNG.random(90) < 0.5
WHOLE = pd.DataFrame(
    {
        "age": (RNG.integers(20, 35, 90) + 30 * OLD).astype(float),
        "town": np.array(["Ulm", "Bonn", "Kiel"])[RNG.integers(0, 3, 90)],
        "paid": (RNG.normal(30, 5, 90) + 60 * OLD).round(2),
    }
)
PARTS = [WHOLE[:40], WHOLE[40:70], WHOLE[70:]]


@pytest.fixture
def folder(tmp_path):
    """A folder of three files with the rows of `WHOLE`."""
    for name, part in zip(("a", "b", "c"), PARTS, strict=True):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def paths(folder):
    return sorted(folder.glob("*.csv"))


def test_files_folders_and_patterns_are_one_table(folder):
    expected = craftc.read_table(WHOLE)
    for source in (paths(folder), tuple(map(str, paths(folder))), folder, str(folder / "*.csv")):
        table = craftc.read_table(source)
        pd.testing.assert_frame_equal(table, expected)
        assert table.attrs["notes"][0] == (
            "3 files were read as one table, rows numbered through them: 'a.csv' (40 rows), 'b.csv' (30 "
            "rows), 'c.csv' (20 rows)."
        )
    assert len(craftc.read_table([folder / "a.csv"])) == 40


def test_each_file_in_its_own_form(folder):
    PARTS[1][["paid", "town", "age"]].to_csv(folder / "b.csv", index=False, sep=";", encoding="utf-16")
    (folder / "c.csv").unlink()
    with open(folder / "c.json", "w") as file:
        json.dump(PARTS[2].to_dict("records"), file)
    text = (folder / "a.csv").read_text()
    (folder / "a.csv").write_text(text + f"Total,,{PARTS[0]['paid'].sum():.2f}\n")
    table = craftc.read_table(folder)
    assert table.index.tolist() == [*range(40), *range(41, 91)]  # the total has a place
    pd.testing.assert_frame_equal(table.reset_index(drop=True), craftc.read_table(WHOLE))
    assert any(note.startswith("'a.csv': Not used: 1 last line") for note in table.attrs["notes"])


def test_parquet_and_categories(tmp_path):
    for i, part in enumerate(PARTS):
        part.astype({"town": "category"}).to_parquet(tmp_path / f"{i}.parquet")
    pd.testing.assert_frame_equal(craftc.read_table(tmp_path), craftc.read_table(WHOLE))


def test_files_without_names(folder):
    PARTS[2].to_csv(folder / "c.csv", index=False, header=False)
    table = craftc.read_table(folder)
    pd.testing.assert_frame_equal(table, craftc.read_table(WHOLE))
    assert "'c.csv' has no column names; those of 'a.csv' were taken." in table.attrs["notes"]
    PARTS[2][["town", "paid", "age"]].to_csv(folder / "c.csv", index=False, header=False)
    with pytest.raises(ValueError, match=r"'c.csv' has no column names that the other files show"):
        craftc.read_table(folder)


@pytest.mark.parametrize(
    ("part", "options", "message"),
    [
        (
            WHOLE.rename(columns={"age": "Age"}),
            {},
            "'b.csv' lacks 'age' and has 'Age', .* Did you mean 'Age'",
        ),
        (WHOLE.drop(columns="town"), {}, "different columns: 'b.csv' lacks 'town', unlike 'a.csv'"),
        (WHOLE.assign(note="x"), {}, "'b.csv' has 'note', unlike"),
        (WHOLE, {"sep": ";", "decimal": ","}, "'age' has decimal commas in 'b.csv', but points in 'a.csv'"),
    ],
)
def test_files_that_differ(folder, part, options, message):
    part.to_csv(folder / "b.csv", index=False, **options)
    with pytest.raises(ValueError, match=message):
        craftc.read_table(folder)


def test_names_of_no_tables(folder, tmp_path):
    (folder / "readme.md").write_text("# sales")
    (folder / ".hidden.csv").write_text("x")
    assert any("left out: 'readme.md'" in note for note in craftc.read_table(folder).attrs["notes"])
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, message in (
        ([], "An empty list of files"),
        ("", "There is no file ''"),
        (empty, "is a folder without tables: it has no files"),
        (str(folder / "*.dat"), "No file matches"),
        ([folder / "a.csv", str(folder / "a.csv")], "is named twice"),
        ([folder / "a.csv", folder / "d.csv"], r"There is no file .*Did you mean 'c.csv'"),
    ):
        with pytest.raises(ValueError, match=message):
            craftc.read_table(source)


def test_new_files_are_read_as_those_of_the_fit(folder):
    model = craftc.CRAFT(random_state=0).fit(craftc.read_table(folder))
    assert model.n_clusters_ == 2
    new = craftc.read_table(paths(folder)[1:], like=model)
    assert model.predict(new).tolist() == model.labels_[40:].tolist()


def test_the_command_line(folder, capsys):
    names = list(map(str, paths(folder)))
    outputs = []
    for words in (names, [str(folder)], [str(folder / "*.csv")], ["--ignore", "town", *names]):
        assert main(["cluster", *words, "--out", str(folder / "out")]) == 0
        outputs.append(capsys.readouterr().out)
        assert len(pd.read_csv(folder / "out" / "labels.csv")) == 90
    assert " ".join(outputs[0].split()).startswith(f"{names[0]} and 2 more: 90 rows")
    assert all("3 files were read as one table" in output for output in outputs)
    assert main(["cluster", *names[:2], str(folder / "d.csv")]) == 2
    assert "There is no file" in capsys.readouterr().err
    assert main(["cluster", *names, "--scheduler", "tcp://host:1"]) == 2
    assert "--scheduler reads one file, folder or pattern, got 3 names" in capsys.readouterr().err


def test_rows_as_dicts_and_series():
    rows = WHOLE.to_dict("records")
    pd.testing.assert_frame_equal(craftc.read_table(rows), craftc.read_table(WHOLE))
    model = craftc.CRAFT(random_state=0).fit(WHOLE)
    assert model.predict(rows[3:5]).tolist() == model.labels_[3:5].tolist()
    assert craftc.CRAFT(random_state=0).fit(rows).labels_.tolist() == model.labels_.tolist()
    for call in (model.predict, craftc.read_table, craftc.DPMeans(5.0).fit):
        with pytest.raises(ValueError, match=r"A Series was passed.*series.to_frame\(\).T for a row"):
            call(WHOLE.iloc[0])
    with pytest.raises(TypeError, match=r"cannot be read as numbers.*DPMeans takes numbers only"):
        craftc.DPMeans(5.0).fit(rows)
