"""Tables read in batches: equal to tables in memory, errors name the file, no scratch files stay."""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from craftc import CRAFT, BPMeans, DPMeans, FeatureSelectionMixture, KFeatures, MixedTable, read_table
from craftc.reading.input_file import TableError
from craftc.table import blocks, out_of_core

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")


def table(n=700, seed=0):
    """Numbers of several kinds, text, a dictionary column and booleans; with missing cells, and a level in
    the last rows only.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    text = np.array(["b", "a", "c"], object)[np.where(rng.random(n) < 0.8, group, rng.integers(0, 3, n))]
    text[-2:] = "late"
    text[rng.random(n) < 0.03] = None
    return pa.table(
        {
            "plain": pa.array(rng.normal(4.0 * (group == 1), 1.0), mask=rng.random(n) < 0.04),
            "skewed": np.exp(rng.normal(group, 0.5)),
            "spike": np.where(rng.random(n) < 0.5, 0.0, rng.normal(5, 1, n)),
            "whole": pa.array(rng.integers(0, 50, n) + 60 * (group == 2), pa.int32()),
            "text": pa.array(text, pa.string()),
            "level": pa.array(np.array(["x", "y"], object)[(group > 0).astype(int)]).dictionary_encode(),
            "flag": pa.array(rng.random(n) < 0.2 + 0.6 * (group == 2), mask=rng.random(n) < 0.02),
        }
    )


def write(folder, whole, ends, **options):
    """Files of the rows up to each of these ends."""
    folder.mkdir(exist_ok=True)
    for i, (start, end) in enumerate(zip([0, *ends], [*ends, len(whole)], strict=True)):
        pq.write_table(whole.slice(start, end - start), folder / f"part{i:02d}.parquet", **options)
    return folder


def equal(a, b):
    assert a.schema == b.schema
    np.testing.assert_array_equal(a.numeric, b.numeric)
    np.testing.assert_array_equal(a.codes, b.codes)
    assert a.codes.dtype == b.codes.dtype


PARTITIONS = [
    (),
    (350,),
    (1, 1, 2, 350, 351, 698),
    (0, 0, 700),
]  # whole, halves, uneven with one-row files, and empty files


@pytest.mark.parametrize("ends", PARTITIONS)
@pytest.mark.parametrize("missing", ["ignore", "category"])
def test_equals_the_table_in_memory(tmp_path, ends, missing, monkeypatch):
    monkeypatch.setattr(out_of_core, "_BATCH_ROWS", 64)
    whole = table()
    folder = write(tmp_path / "parts", whole, ends, row_group_size=100)
    expected = MixedTable.from_data(whole, missing=missing)
    for X in (
        folder,
        str(folder / "*.parquet"),
        sorted(folder.iterdir()),
        ds.dataset(str(folder)),
        whole.to_reader(50),
    ):
        equal(MixedTable.from_parquet(X, missing=missing, scratch=tmp_path), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]


@pytest.mark.parametrize("ends", PARTITIONS[1:])
@pytest.mark.parametrize("covariance", ["auto", "diagonal"])
def test_a_fit_has_the_same_bits(tmp_path, ends, covariance, monkeypatch):
    monkeypatch.setattr(out_of_core, "_BATCH_ROWS", 64)
    monkeypatch.setattr(blocks, "_SMALL", 0)
    whole = table()
    weight = np.random.default_rng(1).integers(0, 3, len(whole)).astype(float)
    folder = write(tmp_path / "parts", whole, ends)
    for sample_weight in (None, weight):
        model = CRAFT(covariance=covariance, n_init=2, random_state=0).fit(
            str(folder / "*.parquet"), sample_weight=sample_weight
        )
        again = CRAFT(covariance=covariance, n_init=2, random_state=0).fit(whole, sample_weight=sample_weight)
        np.testing.assert_array_equal(model.labels_, again.labels_)
        np.testing.assert_array_equal(model.margins_, again.margins_)
        assert model.objective_ == again.objective_
        assert [step[:2] for step in model.merge_path_] == [step[:2] for step in again.merge_path_]
        assert model.feature_names_in_.tolist() == whole.column_names
        for name in ("predict", "predict_proba", "transform", "score_samples", "margins"):
            np.testing.assert_array_equal(
                getattr(model, name)(folder), getattr(again, name)(whole), err_msg=name
            )


def test_separate_groups_are_told_apart_in_files_as_in_memory(tmp_path):
    """The price factor is chosen from the same rows."""
    rng = np.random.default_rng(0)
    group, shares = rng.integers(0, 20, 3000), rng.dirichlet(np.full(6, 0.35), size=(20, 8)).cumsum(axis=2)
    levels = (rng.random((3000, 8))[:, :, None] > shares[group][:, :, :-1]).sum(axis=2)
    whole = pa.table({f"c{j}": np.array(list("abcdef"))[levels[:, j]] for j in range(8)})
    folder = write(tmp_path / "parts", whole, (1, 1200))
    model = CRAFT(n_init=1, random_state=0).fit(str(folder / "*.parquet"))
    again = CRAFT(n_init=1, random_state=0).fit(whole)
    assert model.price_factor_ == again.price_factor_ == 1.0
    np.testing.assert_array_equal(model.labels_, again.labels_)
    assert model.objective_ == again.objective_


def test_columns_are_chosen_and_files_may_hold_more(tmp_path):
    whole = table()
    folder = write(tmp_path / "parts", whole, (300,))
    chosen = MixedTable.from_parquet(folder, columns=["text", "plain"], categorical=["text"], dtype="f4")
    equal(chosen, MixedTable.from_data(whole.select(["text", "plain"]), dtype="f4"))
    model = CRAFT(2, n_init=1, random_state=0).fit(MixedTable.from_parquet(folder, columns=["text", "plain"]))
    assert len(model.predict(folder)) == len(whole)


def test_files_with_other_types_of_the_same_kind(tmp_path):
    """Text and dictionaries, float32 and float64, a column without values in one file."""
    whole = table()
    first, second = whole.slice(0, 300), whole.slice(300)
    first = first.set_column(4, "text", first["text"].dictionary_encode()).set_column(
        1, "skewed", first["skewed"].cast(pa.float32())
    )
    second = second.set_column(5, "level", second["level"].cast(pa.string())).set_column(
        0, "plain", pa.nulls(len(second))
    )
    for i, part in enumerate((first, second)):
        pq.write_table(part, tmp_path / f"{i}.parquet")
    read = MixedTable.from_parquet(tmp_path)
    plain = pa.schema(
        [
            field.with_type(pa.string() if str(field.type).startswith("dict") else field.type)
            for field in whole.schema
        ]
    )
    unified = [part.cast(plain) for part in (first, second)]
    equal(read, MixedTable.from_data(pa.concat_tables(unified)))
    assert read.numeric.dtype == np.float64
    narrow = pa.table({"a": pa.array(np.arange(20), pa.float32())})
    pq.write_table(narrow, tmp_path / "narrow.parquet")
    assert MixedTable.from_parquet(tmp_path / "narrow.parquet").numeric.dtype == np.float32


def drifted(tmp_path, change):
    whole = table()
    folder = write(tmp_path / "parts", whole, (300,))
    pq.write_table(change(whole.slice(300)), folder / "part01.parquet")
    return folder


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda part: part.drop(["text"]), ValueError, r"part01.*lacks column 'text', which .*part00.* has"),
        (
            lambda part: part.append_column("more", part["plain"]),
            ValueError,
            r"part01.*has column 'more', which .*part00.* lacks",
        ),
        (
            lambda part: part.set_column(0, "plain", part["text"]),
            TypeError,
            r"Column 'plain' holds string in .*part01.*other types",
        ),
        (
            lambda part: part.set_column(0, "plain", pa.array([np.inf] * len(part))),
            ValueError,
            r"part01.*infinity: column 'plain'",
        ),
        (
            lambda part: part.set_column(0, "plain", pa.array([None] * len(part), pa.date32())),
            TypeError,
            r"'plain' of .*part01.*date32",
        ),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        MixedTable.from_parquet(drifted(tmp_path, change))


def test_folders_as_spark_writes_them(tmp_path):
    """Every match of a pattern counts, files and folders of that name; temporary files do not."""
    whole = table(90)
    for i, name in enumerate(("one.parquet/part-0", "three", "two.parquet/part-0")):
        path = tmp_path / "all" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(whole.slice(30 * i, 30), path)
    expected = MixedTable.from_data(whole)
    equal(MixedTable.from_parquet(str(tmp_path / "all" / "**" / "*.parquet")), expected)
    for name in ("_temporary", ".hidden"):
        (tmp_path / "all" / name).mkdir()
        pq.write_table(whole, tmp_path / "all" / name / "part.parquet")
    for X in (tmp_path / "all", str(tmp_path / "all" / "*.parquet")):
        equal(MixedTable.from_parquet(X), expected)


def test_columns_from_the_names_of_folders(tmp_path):
    whole = table(60)
    for year in (2024, 2025):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(whole.slice(30 * (year - 2024), 30), tmp_path / f"year={year}" / "part.parquet")
    dataset = ds.dataset(tmp_path, partitioning="hive")
    equal(MixedTable.from_parquet(dataset), MixedTable.from_data(dataset.to_table()))
    chosen = MixedTable.from_parquet(dataset, columns=["year", "plain"], categorical=["year"])
    equal(chosen, MixedTable.from_data(dataset.to_table(columns=["year", "plain"]), categorical=["year"]))
    part = ds.dataset(tmp_path, schema=whole.select(["plain", "text"]).schema)
    assert MixedTable.from_parquet(part).schema.columns == ("plain", "text")


@pytest.mark.filterwarnings("ignore:Column .* has whole numbers from:UserWarning")
def test_rounding_does_not_depend_on_missing_values(tmp_path):
    """An integer beyond 2^53 that float64 rounds to the middle of two float32."""
    whole = pa.table({"a": pa.array([2**60 + 2**36 + 1, 5, None, 7], pa.int64()), "b": [1.0, 2.0, 3.0, 4.0]})
    equal(MixedTable.from_parquet(whole.to_reader(2), dtype="f4"), MixedTable.from_data(whole, dtype="f4"))


@pytest.mark.skipif(not hasattr(nw, "Float16"), reason="narwhals has no half precision")
def test_half_precision_as_categories():
    """Chunks with different dictionaries, which pyarrow would unify as integers."""
    half = pa.chunked_array([np.array(cells, np.float16) for cells in ([1.5, -2.0], [0.5, 1.5], [4.0, -2.0])])
    read = MixedTable.from_data(pa.table({"half": half}), categorical=["half"])
    assert read.levels == ((-2.0, 0.5, 1.5, 4.0),)
    equal(MixedTable.from_parquet(pa.table({"half": half}).to_reader(), categorical=["half"]), read)


def test_names_and_texts_that_are_wrong(tmp_path):
    pq.write_table(table(20).select(["plain", "text"]), tmp_path / "a.parquet")
    twice = pa.Table.from_arrays(
        [pa.array([1.0, 2.0])] * 2 + [pa.array(["x", "y"])], names=["plain", "plain", "text"]
    )
    pq.write_table(twice, tmp_path / "b.parquet")
    for options in ({}, {"columns": ["plain"]}):
        with pytest.raises(ValueError, match=r"b\.parquet: column names must be unique"):
            MixedTable.from_parquet(tmp_path, **options)
    with pytest.raises(TypeError, match=r"sequence of names, got 'text'; pass \['text'\]"):
        MixedTable.from_parquet(tmp_path / "a.parquet", columns="text")
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], np.int32).tobytes())
    pq.write_table(
        pa.table({"text": pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"a\xffb"))}),
        tmp_path / "c.parquet",
    )
    with pytest.raises(ValueError, match=r"c\.parquet.*decode"):
        MixedTable.from_parquet(tmp_path / "c.parquet")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the space of files cannot be reserved here")
def test_a_file_system_that_cannot_reserve_space(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refused)
    monkeypatch.setattr(blocks, "_SMALL", 0)
    assert not blocks.Scratch(tmp_path).empty((37, 3), np.float64).any()


def test_levels_of_other_types_are_not_mixed(tmp_path):
    """The levels 1, "1" and True would depend on the order of the files."""
    feather = pytest.importorskip("pyarrow.feather")
    cells = {
        "text": pa.array(["1", "0"] * 5),
        "whole": pa.array([1, 0] * 5).dictionary_encode(),
        "flag": pa.array([True, False] * 5),
    }
    for name, column in cells.items():
        feather.write_feather(pa.table({"a": column}), tmp_path / f"{name}.arrow")
    for pair in (("text", "whole"), ("whole", "flag"), ("flag", "text")):
        with pytest.raises(
            TypeError, match=rf"Column 'a' holds .* in .*{pair[1]}\.arrow, but other types in other files"
        ):
            MixedTable.from_parquet([tmp_path / f"{name}.arrow" for name in pair])


def test_refusals(tmp_path):
    whole = table()
    with pytest.raises(ValueError, match="empty list of paths"):
        MixedTable.from_parquet([])
    folder = write(tmp_path / "parts", whole, (300,))
    with pytest.raises(FileNotFoundError, match="matches"):
        CRAFT().fit(tmp_path / "nothing" / "*.parquet")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TypeError, match=r"pass the table craftc.read_table\(.*a.csv"):
        CRAFT().fit(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="read_table reads other files"):
        CRAFT().fit(str(tmp_path / "**" / "*.*"))
    (folder / "part01.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(OSError, match=r"part01.*cannot be read"):
        CRAFT().fit(folder)
    with pytest.raises(ValueError, match="0 sample"):
        MixedTable.from_parquet(whole.slice(0, 0).to_reader())
    with pytest.raises(ValueError, match="different text in every row"):
        MixedTable.from_parquet(pa.table({"id": [f"row {i}" for i in range(50)]}).to_reader())
    with pytest.raises(ValueError, match="no value in any of its 20"):
        MixedTable.from_parquet(pa.table({"a": np.arange(20.0), "b": pa.nulls(20)}).to_reader())
    with pytest.raises(ValueError, match=r"'plain' has \d+ missing"):
        MixedTable.from_parquet(whole.to_reader(), missing="error")
    with pytest.raises(ValueError, match="lacks column 'missing'"):
        MixedTable.from_parquet(whole.to_reader(), columns=["missing"])
    with pytest.raises(NotADirectoryError, match="scratch folder does not exist"):
        MixedTable.from_parquet(whole.to_reader(), scratch=tmp_path / "nowhere")


def test_too_many_levels(monkeypatch):
    monkeypatch.setattr(out_of_core, "MAX_LEVELS", 30)
    monkeypatch.setattr(out_of_core, "_NO_CODE", 30)
    column = pa.table({"name": [f"row {i}" for i in range(50)]})
    with pytest.raises(
        ValueError, match="'name' has more than 30 levels, a different text in nearly every row"
    ):
        MixedTable.from_parquet(column.to_reader())


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the space of files cannot be reserved here")
def test_a_full_disk_names_the_folder(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(blocks, "_SMALL", 0)
    with pytest.raises(OSError, match=r"scratch folder is full.*TMPDIR") as caught:
        MixedTable.from_parquet(table().to_reader(), scratch=tmp_path)
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_space_is_written_where_it_cannot_be_reserved(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(blocks, "_ZEROS", 100)
    monkeypatch.setattr(blocks, "_SMALL", 0)
    array = blocks.Scratch(tmp_path).empty((37, 3), np.float64)
    assert not array.any()
    array[:] = 7.0
    assert array.sum() == 37 * 3 * 7.0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed here")
def test_scratch_files_close_with_the_model(tmp_path):
    whole = table()
    folder = write(tmp_path / "parts", whole, (300,))
    before = len(os.listdir("/proc/self/fd"))
    model = CRAFT(2, n_init=1, random_state=0).fit(folder)
    for bad in (0, -1):
        with pytest.raises(ValueError, match="n_clusters"):
            CRAFT(bad).fit(folder)
    assert len(os.listdir("/proc/self/fd")) <= before
    assert model.n_clusters_ == 2


def test_values_of_rows_lie_in_scratch_files(tmp_path):
    """Those of a table in memory do not; joblib hands table and model to other processes."""
    rows = np.tile(np.random.default_rng(0).normal(size=(300, 2)), (300, 1))
    rows[::2] += 9.0
    pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), tmp_path / "rows.parquet")
    table = MixedTable.from_parquet(tmp_path / "rows.parquet")
    model, in_memory = (CRAFT(n_init=1, random_state=0).fit(X) for X in (table, rows))
    for name in ("labels_", "margins_", "outlier_scores_"):
        values, expected = getattr(model, name), getattr(in_memory, name)
        assert isinstance(values.base, mmap.mmap)
        assert not isinstance(expected.base, mmap.mmap)
        np.testing.assert_array_equal(values, expected)
    jobs = (joblib.delayed(_sum_of)(each) for each in (table.numeric, model.labels_))
    assert joblib.Parallel(2)(jobs) == [table.numeric.sum(), model.labels_.sum()]
    assert (pickle.loads(pickle.dumps(model)).labels_ == model.labels_).all()


def _sum_of(values):
    return values.sum()


@pytest.mark.parametrize(
    "estimator",
    [
        DPMeans(n_clusters=3, random_state=0),
        KFeatures(2, n_init=2, random_state=0),
        BPMeans(max_features=3, n_init=1, random_state=0),
        FeatureSelectionMixture(3, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_of_numbers(tmp_path, estimator):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3)) + 6.0 * rng.integers(0, 3, (400, 1))
    whole = pa.table({name: X[:, j] for j, name in enumerate("abc")})
    folder = write(tmp_path / "parts", whole, (1, 150))
    model, again = clone(estimator).fit(folder), clone(estimator).fit(X)
    assert model.objective_ == again.objective_
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(folder), again.predict(X))
    with ThreadPoolExecutor(4) as threads:  # predict leaves the estimator unchanged
        for labels in threads.map(model.predict, [folder] * 8):
            np.testing.assert_array_equal(labels, again.predict(X))
    shuffled = write(tmp_path / "more", whole.select(["c", "a", "b"]).append_column("d", whole["a"]), ())
    np.testing.assert_array_equal(model.predict(shuffled), again.predict(X))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="lacks column 'a'"):
        model.predict(write(tmp_path / "fewer", whole.select(["b", "c"]), ()))
    with pytest.raises(TypeError, match=r"part00.*'text'"):
        clone(estimator).fit(write(tmp_path / "text", table(20).select(["text"]), ()))


def test_a_stored_index_is_no_column(tmp_path):
    pd = pytest.importorskip("pandas", reason="pandas writes the index")
    frame = table().to_pandas().astype({"level": object})
    frame.index = np.arange(len(frame)) * 3 % 1000 + 5
    frame.to_parquet(tmp_path / "a.parquet")
    frame.rename_axis("customer").to_parquet(tmp_path / "b.parquet")
    for name in ("a", "b"):
        equal(
            MixedTable.from_parquet(tmp_path / f"{name}.parquet"),
            MixedTable.from_data(pd.read_parquet(tmp_path / f"{name}.parquet")),
        )
        equal(MixedTable.from_parquet(ds.dataset(tmp_path / f"{name}.parquet")), MixedTable.from_data(frame))


def test_the_table_of_fit_again(tmp_path):
    """Methods that need the rows of the fit read the files once more."""
    folder = write(tmp_path / "parts", table(), (300,))
    model = CRAFT(4, n_init=2, random_state=0).fit(folder)
    again = CRAFT(4, n_init=2, random_state=0).fit(table())
    np.testing.assert_array_equal(model.at(2, folder).margins_, again.at(2, table()).margins_)
    np.testing.assert_array_equal(
        model.stability(folder, n=2, n_seeds=0).overlap, again.stability(table(), n=2, n_seeds=0).overlap
    )
    with pytest.raises(ValueError, match=r"pass the table of fit|another schema"):
        model.at(2, folder / "part00.parquet")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
@pytest.mark.parametrize("model", [CRAFT(n_init=1), DPMeans(), FeatureSelectionMixture(n_init=1)])
def test_names_of_files_that_are_not_utf_8(model, tmp_path):
    """pyarrow opens no such file; the error shows the name in ASCII."""
    table = pd.DataFrame({"x": np.arange(30.0)})
    odd, folder = os.fsencode(tmp_path) + b"/m\xe4y.parquet", os.fsencode(tmp_path) + b"/d\xff"
    os.mkdir(folder)
    for path in (odd, folder + b"/june.parquet"):
        with open(path, "wb") as file:
            pq.write_table(pa.Table.from_pandas(table), file)
    said = r"\\udc(e4|ff).*is not UTF-8.*rename the file or its folder"
    paths = os.fsdecode(odd), [os.fsdecode(odd)], os.fsdecode(folder)
    for given in (tmp_path, f"{tmp_path}/*.parquet", *paths):
        with pytest.raises(ValueError, match=said) as caught:
            model.fit(given)
        assert str(caught.value).isascii()


@pytest.mark.parametrize("read", [CRAFT(n_init=1).fit, DPMeans().fit, read_table])
@pytest.mark.parametrize("place", [500, 2000, 30_000])
def test_checksums_of_pages(read, place, tmp_path):
    """A flipped byte of a page is another number, which only a checksum notices."""
    rng, path = np.random.default_rng(0), tmp_path / "table.parquet"
    table = pa.table({name: rng.normal(size=5000) for name in "ab"})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises((OSError, TableError), match=r"table.parquet.*cannot be read.*CRC checksum"):
        read(str(path))
