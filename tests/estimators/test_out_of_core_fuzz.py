"""Random tables in random files, batches and orders: equal to the same rows in memory, or refused alike."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest

from craftc import CRAFT, MixedTable
from craftc.table import out_of_core

pa = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")
ds = pytest.importorskip("pyarrow.dataset")

WORDS = [
    "",
    " ",
    "1",
    "1.0",
    "01",
    "nan",
    "NaN",
    "None",
    "null",
    "(missing)",
    "True",
    "é",
    "e\u0301",
    "東京",
    "😀",
    "a\tb",
    "x" * 300,
    "?",
]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
TEXTS = ["string", "large_string"]
KINDS = [
    *INTEGERS,
    *FLOATS,
    *TEXTS,
    "decimal",
    "bool",
    "dictionary",
    "ordered",
    "null in dictionary",
    "numbers as levels",
]


def random_column(rng, kind, n):
    """A column of this kind, with nulls; of some kinds also NaN, one level, or one value."""
    absent = rng.random(n) < rng.choice([0.0, 0.1, 0.7])
    n_values = int(rng.choice([1, 2, 3, 8, 40]))
    which = rng.integers(0, n_values, n)
    if kind in INTEGERS:
        ends = np.iinfo(kind)
        values = rng.integers(ends.min, ends.max, n_values, dtype=kind, endpoint=True)
        return pa.array(values[which], mask=absent)
    if kind in FLOATS:
        values = np.append(rng.normal(0.0, 10.0, n_values - 1), -0.0).astype(kind)
        cells = values[which]
        cells[rng.random(n) < rng.choice([0.0, 0.2])] = np.nan
        return pa.array(cells, mask=absent, from_pandas=False)
    if kind == "decimal":
        values = [Decimal(int(v)) / 100 for v in rng.integers(-(10**6), 10**6, n_values)]
        return pa.array(
            [None if a else values[w] for a, w in zip(absent, which, strict=True)], pa.decimal128(12, 2)
        )
    if kind == "bool":
        return pa.array(which % 2 == 0, mask=absent)
    if kind == "numbers as levels":
        values = pa.array(
            np.append(rng.integers(-3, 40, n_values - 1).astype(float), rng.choice([0.5, np.nan])),
            from_pandas=False,
        )
        return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32(), mask=absent), values)
    words = rng.choice(WORDS, min(n_values, len(WORDS)), replace=False).tolist()
    which %= len(words)
    if kind in TEXTS:
        return pa.array(
            [None if a else words[w] for a, w in zip(absent, which, strict=True)], getattr(pa, kind)()
        )
    words = [*words[:-1], None] if kind == "null in dictionary" else words
    codes = pa.array(which, pa.int8(), mask=absent)
    return pa.DictionaryArray.from_arrays(
        codes, pa.array([*words, "not used"], pa.string()), ordered=kind == "ordered"
    )


def random_table(rng):
    n = int(rng.choice([1, 2, 7, 60, 150]))
    columns = {}
    for i in range(int(rng.integers(1, 7))):
        kind = str(rng.choice(KINDS))
        columns[f"{rng.choice(['a', 'ä b', 'a.b', 'x,y', '日'])}{i}"] = random_column(rng, kind, n)
    if rng.random() < 0.08:
        columns["nothing"] = pa.array(
            [None] * n, rng.choice([pa.null(), pa.string(), pa.float32(), pa.bool_()])
        )
    if rng.random() < 0.08:
        columns["id"] = [f"row {i}" for i in range(n)]
    return pa.table(columns)


def random_files(rng, whole, folder):
    """Write files of random sizes, some of them empty, some with the columns in another order; returns the
    rows as pyarrow reads them.
    """
    folder.mkdir()
    ends = np.sort(rng.integers(0, len(whole) + 1, int(rng.integers(0, 6)))).tolist()
    arrow = rng.random() < 0.4 or any(
        pa.types.is_dictionary(each.type) and each.chunk(0).dictionary.null_count for each in whole.columns
    )
    parts = []
    for i, (start, end) in enumerate(zip([0, *ends], [*ends, len(whole)], strict=True)):
        part = whole.slice(start, end - start)
        shuffled = part.select(rng.permutation(part.column_names).tolist()) if i else part
        if arrow:
            path = folder / f"{i}.arrow"
            feather.write_feather(
                shuffled, path, compression="uncompressed", chunksize=int(rng.choice([3, 50]))
            )
            parts.append(feather.read_table(path))
        else:
            path = folder / f"{i}.parquet"
            # a Parquet file stores the order of levels in its dictionaries only
            ordered = [field.name for field in shuffled.schema if getattr(field.type, "ordered", False)]
            pq.write_table(
                shuffled,
                path,
                row_group_size=int(rng.choice([3, 50])),
                use_dictionary=bool(rng.random() < 0.5) or ordered,
            )
            parts.append(pq.read_table(path, partitioning=None))
    return pa.concat_tables([part.select(whole.column_names) for part in parts])


def outcome(read, *args, **options):
    """The result, or the message of the refusal without the name of the file and of one of several wrong
    columns.
    """
    try:
        return read(*args, **options)
    except (TypeError, ValueError) as error:
        message = re.sub(r"^.*?\.(parquet|arrow): ", "", str(error))
        message = re.sub(r".* contains [A-Z][a-z]+ values where", "Values where", message)
        return f"{type(error).__name__}: {message}"


def same_table(a, b):
    assert a.schema == b.schema
    assert [list(map(type, levels)) for levels in a.levels] == [
        list(map(type, levels)) for levels in b.levels
    ]
    assert (a.numeric.dtype, a.codes.dtype) == (b.numeric.dtype, b.codes.dtype)
    assert a.numeric.tobytes() == b.numeric.tobytes()
    np.testing.assert_array_equal(a.codes, b.codes)


@pytest.mark.slow_except(12)
@pytest.mark.filterwarnings("ignore:Column .* has whole numbers from 2:UserWarning")
@pytest.mark.parametrize("seed", range(24))
def test_equal_or_refused_alike(tmp_path, seed, monkeypatch):
    rng = np.random.default_rng([seed, 22])
    monkeypatch.setattr(out_of_core, "_BATCH_ROWS", int(rng.choice([1, 2, 13, 64])))
    for trial in range(4):
        drawn = random_table(rng)
        whole = random_files(rng, drawn, folder := tmp_path / str(trial))
        options = {
            "missing": str(rng.choice(["ignore", "ignore", "category", "error"])),
            "dtype": rng.choice([None, None, "f4", "f8"]),
        }
        if rng.random() < 0.3:
            options["categorical"] = rng.permutation(whole.column_names)[: int(rng.integers(0, 3))].tolist()
        expected = outcome(MixedTable.from_data, whole, **options)
        files = sorted(folder.iterdir())
        sources = [
            folder,
            [str(file) for file in files],
            whole.to_reader(int(rng.choice([1, 5, 100]))),
            ds.dataset(whole),
        ]
        found = outcome(MixedTable.from_parquet, sources[int(rng.integers(len(sources)))], **options)
        if isinstance(expected, str):
            assert found == expected
            continue
        assert not isinstance(found, str), found
        same_table(found, expected)
        if trial == 0:
            same_fit(folder, whole, options["missing"])


def same_fit(folder, whole, missing):
    models = [outcome(CRAFT(missing=missing, n_init=1, random_state=0).fit, X) for X in (folder, whole)]
    if isinstance(models[1], str):
        assert models[0] == models[1]
        return
    found, expected = models
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.margins_, expected.margins_)
    assert found.objective_ == expected.objective_
    assert [step[:2] for step in found.merge_path_] == [step[:2] for step in expected.merge_path_]
    for name in ("predict", "margins", "score_samples"):
        np.testing.assert_array_equal(
            getattr(found, name)(folder), getattr(expected, name)(whole), err_msg=name
        )
