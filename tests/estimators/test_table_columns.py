"""A dict of columns is a table, with and without pandas."""

from __future__ import annotations

import datetime
import enum
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

from craftc import CRAFT, GraphSpectralFeatures, MixedTable
from craftc.table.frames import open_source
from craftc.table.kinds import INFERRED, INFERRED_DATES, ColumnKind, common_kind, kind_of_cells, kind_of_field
from tests.common import ROOT

N = 30
COLUMNS = {
    "size": np.arange(N) / 7,
    "count": [None if i == 3 else i % 7 for i in range(N)],
    "exact": [Decimal(i * i % 11) / 8 for i in range(N)],
    "town": [["Bern", "Basel", None][i % 3] for i in range(N)],
    "kind": np.array(["a", "b"] * (N // 2)),
    "flag": np.arange(N) // 4 % 2 == 0,
    "maybe": [None, True, False, False, True] * (N // 5),
}


def test_roles_and_cells():
    table = MixedTable.from_data(COLUMNS)
    assert table.numeric_names == ("size", "count", "exact")
    assert table.categorical_names == ("town", "kind", "flag", "maybe")
    assert table.levels == (("Basel", "Bern"), ("a", "b"), (False, True), (False, True))
    assert np.isnan(table.numeric[3, 1])
    assert table.numeric[8, 2] == 9 / 8
    assert table.codes[:3, 0].tolist() == [1, 0, 2]


KINDS = {
    ColumnKind.NUMBER: [1.5, 2.0, None],
    ColumnKind.LEVEL: [True, False, None],
    ColumnKind.TEXT: ["a", "b", None],
    ColumnKind.EMPTY: [None, None, None],
    ColumnKind.OTHER: [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_has_one_kind_in_every_table(kind):
    pa = pytest.importorskip("pyarrow", reason="Arrow tables")
    pd = pytest.importorskip("pandas", reason="data frames")
    arrow = pa.table({"column": KINDS[kind]})
    assert kind_of_field(arrow.schema.field("column"))[0] == kind
    assert kind_of_cells(np.array(KINDS[kind], dtype=object)) == kind
    for table in ({"column": KINDS[kind]}, pd.DataFrame({"column": KINDS[kind]}), arrow):
        assert open_source(table).kinds == [kind]
    inferred = pd.api.types.infer_dtype(KINDS[kind], skipna=True)
    assert INFERRED.get(inferred, ColumnKind.OTHER) == kind
    assert (inferred in INFERRED_DATES) == (kind == ColumnKind.OTHER)


def test_files_agree_on_the_kind_of_a_column():
    pa = pytest.importorskip("pyarrow", reason="Arrow tables")
    schemas = {
        name: pa.schema([("column", of)])
        for name, of in {
            "number": pa.int64(),
            "text": pa.string(),
            "none": pa.null(),
            "flag": pa.bool_(),
        }.items()
    }

    def common(*names):
        return common_kind("column", [(name, schemas[name]) for name in names])

    assert common("none", "none") == common("none", "number") == ColumnKind.NUMBER
    assert common("text", "none") == common("flag", "none") == ColumnKind.LEVEL
    with pytest.raises(TypeError, match="'column' holds bool in flag, but other types in other files"):
        common("text", "flag")


def test_equal_to_the_same_frame():
    pd = pytest.importorskip("pandas", reason="compared with a frame")
    from_dict, from_frame = MixedTable.from_data(COLUMNS), MixedTable.from_data(pd.DataFrame(COLUMNS))
    assert from_dict.schema == from_frame.schema
    np.testing.assert_array_equal(from_dict.numeric, from_frame.numeric)
    np.testing.assert_array_equal(from_dict.codes, from_frame.codes)
    series = {name: pd.DataFrame(COLUMNS)[name] for name in COLUMNS}
    assert MixedTable.from_data(series).schema == from_frame.schema


def test_fit_and_predict():
    model = CRAFT(n_clusters=2, n_init=1, random_state=0).fit(COLUMNS)
    assert model.n_features_in_ == len(COLUMNS)
    assert model.feature_names_in_.tolist() == list(COLUMNS)
    turned = {name: cells[:5] for name, cells in reversed(COLUMNS.items())}
    assert model.predict(turned).tolist() == model.labels_[:5].tolist()
    with pytest.raises(ValueError, match="yet now missing:\n- size"):
        model.predict({name: cells for name, cells in COLUMNS.items() if name != "size"})
    assert GraphSpectralFeatures(n_components=2).fit(COLUMNS).n_features_in_ == len(COLUMNS)


def test_narrow_floats_stay_narrow():
    assert (
        MixedTable.from_data({"a": np.ones(3, np.float32), "b": np.zeros(3, np.float16)}).numeric.dtype
        == np.float32
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "'a' has 2 cells and 'b' has 1"),
        ({"a": [[1, 2], [3, 4]]}, r"'a' must be a sequence of cells, got an array of shape \(2, 2\)"),
        ({"a": 1.0}, r"must be a sequence of cells, got an array of shape \(\)"),
        ({"a": []}, "0 sample"),
        ({}, "0 feature|0 sample"),
        ({1: [1, 2], "1": [1, 2]}, "must be unique"),
        ({"a": ["x", "y", "z"]}, "'a' has a different text in every row"),
        ({"a": [None, None]}, "'a' has no value in any"),
        ({"a": [1.0, np.inf]}, "infinity"),
        ({"a": [1, "x"]}, "'a' cannot be read as numbers"),
        ({"a": [datetime.date(2024, 1, 1)] * 2}, "neither numeric nor categorical"),
        ({"a": np.array(["2024-01-01"], "M8[D]")}, "neither numeric nor categorical"),
        ({"a": np.ma.masked_array([1, 2])}, "masked array"),
    ],
)
def test_bad_columns(columns, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MixedTable.from_data(columns)


def test_columns_named_as_categorical():
    assert MixedTable.from_data({"a": [1, "x"], "b": [1, 2]}, categorical=["a"]).levels == ((1, "x"),)
    with pytest.raises(TypeError, match="'town' contains text values where numbers are expected"):
        MixedTable.from_data(COLUMNS, categorical=np.zeros(len(COLUMNS), bool))
    for named in ([], [next(iter(COLUMNS))]):  # adds to the types
        assert "town" in MixedTable.from_data(COLUMNS, categorical=named).categorical_names


def test_a_file_name_leads_to_read_table(tmp_path):
    for name in ("t.csv", tmp_path / "t.csv"):
        with pytest.raises(TypeError, match=r"pass a table, as craftc\.read_table"):
            CRAFT().fit(name)


@pytest.mark.slow
def test_heart_without_pandas_has_the_same_clusters():
    script = """
import sys
{block}
from craftc import CRAFT
from craftc.datasets import load_heart
heart = load_heart().data
model = CRAFT(random_state=0).fit(heart)
assert (model.predict(heart) == model.labels_).all()
print(type(heart).__name__, model.cut(1).max(), model.objective_.hex(), model.labels_.tolist())
"""
    blocked = "sys.modules.update(dict.fromkeys(('pandas', 'polars', 'pyarrow', 'matplotlib')))"
    words = []
    for block in ("", blocked):
        command = [sys.executable, "-c", script.format(block=block)]
        words.append(
            subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split(" ", 1)
        )
    assert [kind for kind, _ in words] == ["DataFrame", "dict"]
    assert words[0][1] == words[1][1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_a_frame_of_many_columns_of_one_type_is_the_table_of_its_columns(dtype):
    pd = pytest.importorskip("pandas")
    cells = np.random.default_rng(4).integers(0, 5, (30, 120)).astype(dtype)
    frame = pd.DataFrame(cells, columns=[f"c{j}" for j in range(120)])
    of_frame, of_dict = (
        MixedTable.from_data(X, categorical=["c7", "c119"])
        for X in (frame[::-1], {name: column.to_numpy()[::-1] for name, column in frame.items()})
    )
    assert of_frame.numeric.dtype == of_dict.numeric.dtype
    np.testing.assert_array_equal(of_frame.numeric, of_dict.numeric)
    np.testing.assert_array_equal(of_frame.codes, of_dict.codes)
    assert of_frame.schema.levels == of_dict.schema.levels
    assert of_frame.schema.columns == of_dict.schema.columns


@pytest.mark.parametrize("form", ["frame", "dict", "array"])
def test_levels_that_are_equal_or_have_one_name(form):
    pd = pytest.importorskip("pandas", reason="columns of objects")

    def table(*cells):
        objects = pd.Series([cells[i % len(cells)] for i in range(N)], dtype=object)
        if form == "array":
            return MixedTable.from_data(objects.to_numpy()[:, None], categorical=[0])
        columns = {"b": objects.to_numpy()}
        return MixedTable.from_data(pd.DataFrame(columns) if form == "frame" else columns, categorical=["b"])

    for cells, message in (
        ((True, 1, "z"), "holds True and 1, which are equal; convert its cells to one type"),
        ((0.0, "z", False), "holds False and 0, which are equal"),
        ((1, "1", "z"), "holds 1 and '1', which have one name"),
        ((1.0, "1", "z"), "holds 1.0 and '1', which have one name"),
        ((True, "True", "z"), "holds True and 'True', which have one name"),
    ):
        with pytest.raises(TypeError, match=message):
            table(*cells)
    for cells in ((True, 2, "z"), (1, 1.0, "z"), (1, 2, "z"), (True, "z", None)):
        assert len(table(*cells).levels[0]) == len(set(cells) - {None})
    pairs = pd.Categorical([1, "1"] * 30, categories=[1, "1"])
    with pytest.raises(TypeError, match="have one name"):
        MixedTable.from_data(pd.DataFrame({"b": pairs}))


def test_cells_that_are_no_levels_say_what_makes_levels_of_them():
    pd = pytest.importorskip("pandas", reason="data frames")
    colour = enum.Enum("Colour", "red blue")
    for frame, categorical, message in (
        (pd.DataFrame({"b": [b"x", b"y"] * 30}), "auto", r"'b' holds bytes; .*X\['b'\].str.decode"),
        (pd.DataFrame({"b": [b"x", None] * 30}), ["b"], r"'b' holds bytes; .*X\['b'\].str.decode"),
        (pd.DataFrame({"b": list(colour) * 30}), "auto", r"objects \(Colour\) .*X\['b'\].map\(str\)"),
        (pd.DataFrame({"b": list(colour) * 30}), ["b"], r"objects \(Colour\) .*X\['b'\].map\(str\)"),
    ):
        with pytest.raises(TypeError, match=message):
            MixedTable.from_data(frame, categorical=categorical)
    MixedTable.from_data(pd.DataFrame({"b": pd.Series(list(colour) * 30).map(str)}))
