"""`compare` and `report.write` read files and frames with texts as the model's table was read."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc import report

pd = pytest.importorskip("pandas", reason="files are read with pandas")
pytest.importorskip("jinja2", reason="reports need Jinja2")

N = 120
RNG = np.random.default_rng(0)
OLD = RNG.random(N) < 0.5
RAW = pd.DataFrame(
    {
        "day": [f"{1 + i % 28:02d}/{1 + (i // 28) % 12:02d}/2023" for i in range(N)],
        "paid": [
            f"{1500 + 40 * i % 800}".replace("1", "1.", 1) if o else f"{20 + i % 9},50"
            for i, o in enumerate(OLD)
        ],
        "lang": np.where(
            OLD,
            np.array(["SQL; R", "SQL"])[RNG.integers(0, 2, N)],
            np.array(["Go", "Go; R"])[RNG.integers(0, 2, N)],
        ),
        "news": np.where(OLD, "x", ""),
        "kind": np.where(OLD, "a", "b"),
    }
)


@pytest.fixture(scope="module")
def model():
    return craftc.CRAFT(2, random_state=0).fit(craftc.read_table(RAW.drop(columns="kind")))


def test_compare_reads_new_tables_as_the_fit(model, tmp_path):
    RAW.to_csv(tmp_path / "t.csv", index=False, sep=";")
    few = RAW[:5].assign(day="05/01/2023", paid="1.500")
    few.to_csv(tmp_path / "u.csv", index=False)
    table = craftc.read_table(RAW, like=model)
    expected = craftc.compare(model, table)
    assert expected.labels.tolist() == model.labels_.tolist()
    assert expected.notes == []
    for source in (RAW, tmp_path / "t.csv", str(tmp_path / "t.csv"), [tmp_path / "t.csv"]):
        found = craftc.compare(model, source)
        assert found.labels.tolist() == expected.labels.tolist()
        assert found.drift == expected.drift
        assert any("columns that are not in the model are ignored: 'kind'" in note for note in found.notes)
    of_frame, of_file = craftc.compare(model, few), craftc.compare(model, tmp_path / "u.csv")
    assert of_frame.labels.tolist() == of_file.labels.tolist()
    assert of_frame.features()["drift"].tolist() == of_file.features()["drift"].tolist()


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        (
            "day",
            "05/21/2023",
            "'day': the model was fitted on dates with the day first, which '05/21/2023' is",
        ),
        ("paid", "many", "'paid': the model expects numbers, got 'many'"),
        ("day", "never", "'day': the model was fitted on dates, got 'never'; write the dates as in the fit"),
    ],
)
def test_cells_that_contradict_the_fit(model, column, cells, message, tmp_path):
    new = RAW.assign(**{column: cells})
    with pytest.raises(ValueError, match=message):
        craftc.compare(model, new)
    new.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=message):
        report.write(model, tmp_path / "t.csv", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_reports_read_the_table_of_the_fit(model, tmp_path):
    table = craftc.read_table(RAW, like=model)
    table["kind"] = pd.Categorical(RAW["kind"])
    report.write(model, table, tmp_path / "a.html", target="kind", title="t")
    RAW.to_csv(tmp_path / "t.csv", index=False)
    report.write(model, RAW, tmp_path / "b.html", target="kind", title="t")
    report.write(model, tmp_path / "t.csv", tmp_path / "c.html", target="kind", title="t")
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html", "c.html")]
    assert pages[0] == pages[1] == pages[2]
    with pytest.raises(ValueError, match="has no column 'x'"):
        report.write(model, tmp_path / "t.csv", tmp_path / "d.html", target="x")


def test_tables_that_need_no_reading(tmp_path):
    numbers = pd.DataFrame(RNG.normal(size=(60, 3)) + 5 * (np.arange(60) % 2)[:, None], columns=list("abc"))
    plain = craftc.CRAFT(random_state=0).fit(numbers)
    numbers.to_csv(tmp_path / "t.csv", index=False)
    assert craftc.compare(plain, tmp_path / "t.csv").labels.tolist() == plain.labels_.tolist()
    numbers.to_parquet(tmp_path / "t.parquet")
    assert craftc.compare(plain, str(tmp_path / "t.parquet")).labels.tolist() == plain.labels_.tolist()
    ready = craftc.read_table(RAW.drop(columns="kind"))
    model = craftc.CRAFT(2, random_state=0).fit(ready)
    ready.attrs = {}
    assert craftc.compare(model, ready[:40]).notes == []
    assert craftc.compare(model, ready[:40]).labels.tolist() == model.labels_[:40].tolist()


def test_lists_in_the_place_of_separated_answers():
    words = ["a", "b", "c"]
    some = [[word for bit, word in enumerate(words) if i >> bit & 1] for i in range(8)] * 10
    texts = pd.DataFrame({"o": ["|".join(each) for each in some], "x": np.arange(80.0)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(texts))
    lists = texts.assign(o=some)
    assert craftc.read_table(lists, like=model).equals(craftc.read_table(texts, like=model))
