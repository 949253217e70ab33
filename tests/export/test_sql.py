"""Statements of SQL assign rows to the clusters of `predict`, in the engines themselves."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest

import craftc
from craftc.describe.view import numbers_by_size
from craftc.export.dates import steps_of_part
from craftc.table.dates import parts_of
from tests.estimators.covariance_cases import spread_apart_mixed
from tests.export import scored_tables as tables

pd = pytest.importorskip("pandas", reason="tables are data frames")
sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install 'craftc[export]'")
pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")

DIALECTS = ("bigquery", "duckdb", "mysql", "postgres", "snowflake", "spark", "sqlite", "tsql")
both_engines = pytest.mark.parametrize("engine", tables.ENGINES)


@pytest.fixture(scope="module")
def fitted():
    """A model of texts that are hard to quote, its table, and the table in a database."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 300)
    frame = pd.DataFrame(
        {
            'na"me; --': np.array(tables.NASTY, object)[
                (7 * groups + rng.integers(0, 4, 300)) % len(tables.NASTY)
            ],
            "select": rng.normal(4.0 * groups, 1.0),
            "ü'`]": rng.random(300) < 0.2 + 0.5 * groups,
        }
    )
    model = craftc.CRAFT(n_clusters=3, n_init=1, random_state=0).fit(frame)
    return model, frame


def scored(model, rows, engine, **options):
    statement = craftc.to_sql(model, "t", dialect=engine, **options)
    return tables.ENGINES[engine](statement, rows.assign(id=np.arange(len(rows))))


@pytest.mark.filterwarnings("ignore:Column .* cells of .* lie outside the range of the fit")
@both_engines
@pytest.mark.slow_except(6)
@pytest.mark.parametrize("seed", range(60))
def test_random_models(seed, engine):
    rng = np.random.default_rng(seed)
    model, frame = tables.random_model(tables.random_table(rng), rng)
    rows = frame if isinstance(model, craftc.DPMeans) else tables.new_rows(frame, rng)
    tables.check(model, rows, scored(model, rows, engine))


@both_engines
def test_hostile_names_and_levels(fitted, engine):
    model, frame = fitted
    result = scored(model, frame, engine, probabilities=True).sort_values("id")
    tables.check(model, frame, result)
    order = np.argsort(numbers_by_size(model.cluster_sizes_))
    assert result["cluster_name"].tolist() == [model.cluster_names_[order[n - 1]] for n in result["cluster"]]
    found = result[[f"probability_{n}" for n in (1, 2, 3)]].to_numpy()
    np.testing.assert_allclose(found, model.predict_proba(frame)[:, order], atol=1e-6)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_reads_its_statement(fitted, dialect):
    model, _ = fitted
    statement = craftc.to_sql(model, "a.b", key=("id", "k'ey"), dialect=dialect, probabilities=True)
    tree = sqlglot.parse_one(statement, dialect=dialect)
    literals = {
        each.this.removesuffix("|") for each in tree.find_all(sqlglot.exp.Literal, sqlglot.exp.National)
    }
    assert set(model.levels_[0]) <= literals
    columns = {each.name for each in tree.find_all(sqlglot.exp.Column)}
    assert {'na"me; --', "select", "ü'`]", "id", "k'ey"} <= columns
    assert [each.alias for each in tree.selects][:4] == ["id", "k'ey", "cluster", "cluster_name"]


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("form", ["full", "tied", "auto"])
def test_missing_cells_in_a_covariance(form):
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 3, 400)
    base = rng.normal(3.0 * groups, 1.0)
    frame = pd.DataFrame(
        {"a": base, "b": 0.8 * base + 0.3 * rng.normal(size=400), "c": rng.normal(groups, 1.0)}
    )
    frame["d"] = frame["a"] - frame["c"] + 0.2 * rng.normal(size=400)
    model = craftc.CRAFT(3, covariance=form, init=groups, n_init=1, random_state=0).fit(frame)
    assert any(each is not None for each in model.covariances_)
    rows = frame.mask(rng.random(frame.shape) < 0.4)
    assert rows.isna().all(axis=1).any()
    for engine in tables.ENGINES:
        tables.check(model, rows, scored(model, rows, engine))


def test_normal_densities_of_levels():
    frame = spread_apart_mixed()
    model = craftc.CRAFT(random_state=0).fit(frame)
    assert model._fitted.clusters.normals is not None
    for engine in tables.ENGINES:
        tables.check(model, frame, scored(model, frame, engine))


@pytest.mark.parametrize(("n_columns", "missing"), [(15, 0.2), (50, 0.0)])
def test_a_covariance_that_all_clusters_share(n_columns, missing):
    """One sweep for all clusters; of complete rows a linear form each, however many columns there are."""
    rng = np.random.default_rng(0)
    groups, loadings = rng.integers(0, 4, 300), rng.normal(size=n_columns)
    cells = rng.normal(size=(300, 1)) * loadings + rng.normal(size=(300, n_columns))
    cells += rng.normal(size=(4, n_columns))[groups]
    frame = pd.DataFrame(cells, columns=[f"c{d}" for d in range(n_columns)])
    model = craftc.CRAFT(4, init=groups, n_init=1, random_state=0).fit(frame)
    assert all(len(each.columns) > 0.7 * n_columns for each in model.covariances_)
    rows = frame.mask(rng.random(frame.shape) < missing)
    assert re.search(r"\* z\d", craftc.to_sql(model, "t")) is None
    for engine in tables.ENGINES:
        tables.check(model, rows, scored(model, rows, engine))


@pytest.mark.slow_except(1)
@both_engines
def test_more_columns_than_one_join_has(engine):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 100)
    frame = pd.DataFrame(
        {f"c{d}": (groups * (d % 3) + rng.integers(0, 3, 100)).astype(str) for d in range(70)}
    )
    model = craftc.KModes(3, n_init=1, random_state=0).fit(frame)
    tables.check(model, frame, scored(model, frame, engine))


@both_engines
@pytest.mark.parametrize("model", [craftc.CRAFT, craftc.PaperCRAFT])
def test_single_precision(model, engine):
    """A model of float32 rounds its numbers before it compares them."""
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=400) + 3.0 * rng.integers(0, 2, 400), 1).astype(np.float32)
    frame = pd.DataFrame({"x": values, "y": rng.integers(0, 3, 400).astype(np.float32)})
    options = {"numeric": "auto"} if model is craftc.PaperCRAFT else {}
    fitted = model(2, random_state=0, n_init=1, **options).fit(frame)
    wide = pd.DataFrame(
        {"x": np.round(frame["x"].to_numpy(np.float64), 1), "y": frame["y"].astype(np.float64)}
    )
    rows = frame.astype(np.float64) if engine == "sqlite" and model is craftc.PaperCRAFT else wide
    tables.check(fitted, rows, scored(fitted, rows, engine))  # SQLite has no single precision


@both_engines
def test_rows_that_predict_refuses(engine):
    frame = pd.DataFrame({"x": [0.0, 0.1, 9.0, 9.1] * 10, "c": ["a", "b", "b", "b"] * 10})
    model = craftc.CRAFT(n_clusters=2, missing="error", unknown="error", random_state=0).fit(frame)
    rows = pd.DataFrame({"x": [0.0, None, 9.0, 9.0], "c": ["a", "a", None, "new"]})
    result = scored(model, rows, engine, probabilities=True).sort_values("id")
    assert result["cluster"].isna().tolist() == [False, True, True, True]
    for column in ("margin", "probability_1", "cluster_name"):
        assert result[column].isna().tolist() == [False, True, True, True]


@both_engines
def test_nan_and_null_are_missing(engine):
    frame = pd.DataFrame({"x": np.repeat([0.0, 5.0, 6.0], 30), "y": np.tile([1.0, 2.0, 3.0], 30)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(frame)
    rows = pd.DataFrame({"x": [np.nan, 1e300, -1e300, 5.0], "y": [1.0, np.nan, 2.0, -7.5]})
    tables.check(model, rows, scored(model, rows, engine))


def test_empty_texts_of_an_import_of_csv_are_missing_in_sqlite():
    frame = pd.DataFrame({"x": np.repeat([0.0, 5.0, 6.0], 30), "y": np.tile([1.0, 2.0, 3.0], 30)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(frame)
    rows = pd.DataFrame({"x": ["", "0", "5.0"], "y": ["1", "", "2"]})
    numbers = rows.replace("", None).astype(float)
    tables.check(model, numbers, scored(model, rows, "sqlite"))


@both_engines
@pytest.mark.parametrize("table", ["given", "t0", "Cell", "main.cost1", '"dot.ted"', "with blank"])
def test_names_of_tables(table, engine):
    frame = pd.DataFrame({"x": np.repeat([0.0, 5.0], 30), "id": np.arange(60)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(frame[["x"]])
    name = table.removeprefix("main.").strip('"')
    statement = craftc.to_sql(model, table, dialect=engine)
    if engine == "duckdb":
        import duckdb

        with duckdb.connect() as connection:
            connection.execute(f'create table "{name}" as select * from frame')
            result = connection.sql(statement).df()
    else:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(":memory:")) as connection:
            frame.to_sql(name, connection, index=False)
            result = pd.read_sql(statement, connection)
    tables.check(model, frame[["x"]], result)


@both_engines
def test_dates_and_their_parts(engine, tmp_path):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 600)
    days = rng.integers(0, 1200, 600) // 7 * 7 + 2 * groups
    when = pd.Timestamp("1968-02-01") + pd.to_timedelta(
        24 * days + 10 * groups + rng.integers(0, 6, 600), unit="h"
    )
    file = tmp_path / "table.csv"
    pd.DataFrame({"x": rng.normal(groups, 1.0), "when": when}).to_csv(file, index=False)
    frame = craftc.read_table(file, dates="parts")
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(frame)
    assert "when weekday" in frame.columns
    moments = when.strftime("%Y-%m-%d %H:%M:%S") if engine == "sqlite" else when
    tables.check(model, frame, scored(model, frame[["x"]].assign(when=moments), engine))
    tables.check(model, frame, scored(model, frame, engine))  # days, as read_table has them


@pytest.mark.parametrize("part", ["hour", "weekday", "season"])
def test_parts_of_dates(part):
    import duckdb

    days = np.concatenate([np.arange(-60000.0, 60000.0, 13) + 0.37, np.arange(-200.0, 3000.0)])
    frame, query = pd.DataFrame({"x": days}), "select * from frame"
    for step in steps_of_part(part, "x", "y", "FLOOR({})"):
        query = f"select *, {', '.join(f'{text} as {name}' for name, text in step.items())} from ({query})"
    found = duckdb.sql(query).df()["y"].to_numpy(float)
    assert len(frame) == len(found)
    np.testing.assert_allclose(found, parts_of(days)[part], atol=1e-9)


@both_engines
def test_levels_that_are_numbers_or_mixed(engine):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 200)
    frame = pd.DataFrame({"code": rng.integers(0, 4, 200) + 3 * groups, "x": rng.normal(3.0 * groups, 1.0)})
    model = craftc.CRAFT(n_clusters=2, kinds={"code": "category"}, random_state=0).fit(frame)
    rows = frame.assign(code=np.where(np.arange(200) % 9 == 0, 77, frame["code"]))
    tables.check(model, rows, scored(model, rows, engine))
    mixed = frame.assign(code=[value if value % 2 else str(value) for value in frame["code"].tolist()])
    model = craftc.CRAFT(2, n_init=1, kinds={"code": "category"}, random_state=0).fit(mixed)
    rows = mixed.assign(code=mixed["code"].map(str))
    tables.check(model, rows, scored(model, rows, engine))


@pytest.fixture(scope="module")
def as_people_have_them():
    """A table whose blanks, truth values, whole numbers, boxes and dates `read_table` changes."""
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 3, 120)
    return pd.DataFrame(
        {
            "x": rng.normal(3.0 * groups, 1.0),
            "town": np.array(["  Ulm", "Bonn  ", " a b "], object)[groups],
            "member": rng.random(120) < 0.1 + 0.4 * groups,
            "stars": np.array([1.0, 2.0, 5.0])[groups],
            "news": np.where(rng.random(120) < 0.1 + 0.4 * groups, "x", None),
            "since": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(400 * groups + rng.integers(0, 300, 120), "D"),
        }
    )


MODELS_OF_FILES = {
    "craft": lambda: craftc.CRAFT(3, n_init=1, random_state=0),
    "paper": lambda: craftc.PaperCRAFT(3, n_init=1, random_state=0),
    "prototypes": lambda: craftc.KPrototypes(3, n_init=1, random_state=0),
    "category": lambda: craftc.CRAFT(3, n_init=1, missing="category", random_state=0),
    "error": lambda: craftc.KPrototypes(3, n_init=1, missing="error", random_state=0),
}


@pytest.mark.slow_except(4)
@both_engines
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("which", MODELS_OF_FILES)
def test_texts_that_read_table_has_changed(which, engine, as_people_have_them):
    table = as_people_have_them
    model = MODELS_OF_FILES[which]().fit(craftc.read_table(table))
    given = table.assign(since=table["since"].dt.strftime("%Y-%m-%d"))  # what SQLite has of dates
    rows = given if engine == "sqlite" else table
    new = craftc.read_table(table, like=model)
    assert new["news"].notna().all()
    tables.check(model, new, scored(model, rows, engine))
    marked = rows.assign(
        news=table["news"].fillna("  "), town=[None if i % 7 == 0 else t for i, t in enumerate(table["town"])]
    )
    if which != "error":
        again = craftc.read_table(marked, like=model)
        tables.check(model, again, scored(model, marked, engine))
    for spelt in ({True: "TRUE", False: "FALSE"}, {True: "true", False: "false"}):
        other = rows.assign(member=table["member"].map(spelt), stars=table["stars"].map("{:.2f}".format))
        tables.check(model, craftc.read_table(other, like=model), scored(model, other, engine))


@both_engines
@pytest.mark.parametrize("words", [("yes", "no"), ("t", "f"), ("Y", "N")])
def test_truth_values_in_the_place_of_words(words, engine):
    heart = craftc.datasets.load_heart().data[["exang", "max_hr", "oldpeak"]]
    is_first = heart["exang"] == heart["exang"].cat.categories[0]
    table = heart.assign(exang=np.where(is_first, *words))
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(table))
    rows = heart.assign(exang=is_first)
    new = craftc.read_table(rows, like=model)
    assert new["exang"].tolist() == table["exang"].tolist()
    tables.check(model, new, scored(model, rows, engine))


@both_engines
@pytest.mark.parametrize("tick", ["x", "1", "true"])
def test_truth_values_in_the_place_of_ticks(tick, engine):
    heart = craftc.datasets.load_heart().data[["exang", "max_hr", "oldpeak"]]
    is_first = heart["exang"] == heart["exang"].cat.categories[0]
    table = heart.assign(exang=np.where(is_first, tick, None))
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(table))
    fitted = craftc.read_table(table, like=model)
    for cells in (is_first, is_first.astype(int), is_first.astype(float), is_first.where(is_first, None)):
        rows = heart.assign(exang=cells)
        new = craftc.read_table(rows, like=model)
        assert new["exang"].tolist() == fitted["exang"].tolist()
        tables.check(model, new, scored(model, rows, engine))


def test_the_comments_name_columns_of_answers():
    some = ["golf;chess", "chess;yoga", "golf", "yoga;golf"] * 30
    table = pd.DataFrame({"likes": some, "x": np.tile([0.0, 5.0, 6.0, 7.0], 30)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(table))
    comment = next(line for line in craftc.to_sql(model).splitlines() if "view" in line)
    assert comment.startswith("-- Make in a view of 'likes', 'yes' or 'no': ")
    assert "likes: chess" in comment
    cells = [i % 2 * 50 + i % 7 for i in range(120)]
    off = [f"{i % 2 * 20 + 3 * i % 11} %" for i in range(120)]
    paid = pd.DataFrame({"paid": [f"{i},50 €" for i in cells], "off": off})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(craftc.read_table(paid))
    read = craftc.to_sql(model).splitlines()[1]
    assert read == "-- Reads paid (number in €); off (number in %)."


@both_engines
def test_one_cluster_has_no_margin(engine):
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=50)})
    model = craftc.CRAFT(n_clusters=1, random_state=0).fit(frame)
    result = scored(model, frame, engine)
    assert result["margin"].isna().all()
    assert (result["cluster"] == 1).all()
    assert "margin" not in scored(model, frame, engine, margin=False)


@pytest.mark.slow
def test_a_large_model_is_a_short_statement():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 60, 6000)
    centres = rng.normal(0.0, 6.0, (60, 8))
    frame = pd.DataFrame(centres[groups] + rng.normal(size=(6000, 8)), columns=list("abcdefgh"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = craftc.CRAFT(n_clusters=60, init=groups, n_init=1, covariance="diagonal", random_state=0).fit(
            frame
        )
    statement = craftc.to_sql(model, "t")
    assert model.n_clusters_ == 60
    assert len(statement) < 500_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "oracle"}, "dialect must be one of"),
        ({"key": ()}, "key must name"),
        ({"key": 5}, "key must name one or more columns of the table, got 5"),
        ({"key": ("Cluster",)}, "rename it in a view"),
        ({"key": ("id", "ID")}, "rename it in a view"),
        ({"table": "a..b"}, "table must be"),
        ({"table": ""}, "table must be"),
        ({"key": "k\0"}, "no database stores"),
    ],
)
def test_bad_options(fitted, options, message):
    with pytest.raises(ValueError, match=message):
        craftc.to_sql(fitted[0], **{"table": "t", **options})


def test_packages_that_are_not_installed(fitted, monkeypatch):
    for package, export in (("sqlglot", craftc.to_sql), ("onnx", craftc.to_onnx)):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=rf"needs {package}: pip install 'craftc\[export\]'"):
            export(fitted[0])


def test_what_cannot_be_exported():
    frame = pd.DataFrame({"a": np.repeat([0.0, 5.0], 30), "A": np.tile([0.0, 1.0], 30)})
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(frame)
    assert craftc.to_sql(model, "t", dialect="postgres")
    with pytest.raises(ValueError, match=r"'a' and 'A'.*one name in duckdb"):
        craftc.to_sql(model, "t")
    with pytest.raises(TypeError, match="BPMeans"):
        craftc.to_sql(craftc.BPMeans(), "t")
    jaccard = craftc.KModes(2, cat_dissim="jaccard", random_state=0).fit(frame[["A"]].astype(str))
    with pytest.raises(ValueError, match=r"cat_dissim='jaccard'.*'matching'"):
        craftc.to_sql(jaccard, "t")
    with pytest.raises(ValueError, match="probabilities=False"):
        craftc.to_sql(craftc.KModes(2, random_state=0).fit(frame[["A"]].astype(str)), "t", probabilities=True)
    with pytest.raises(ValueError, match="level of column 'A'"):
        craftc.to_sql(craftc.KModes(2, random_state=0).fit(pd.DataFrame({"A": ["x\0", "y"] * 30})), "t")


@pytest.mark.slow
def test_covariances_of_many_columns_refuse_rows_with_missing_cells():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 900)
    mixing = rng.normal(size=(30, 30))
    cells = rng.normal(size=(900, 30)) @ mixing + 3.0 * groups[:, None] * rng.normal(size=30)
    frame = pd.DataFrame(cells, columns=[f"c{d}" for d in range(30)])
    options = {"covariance": "full", "init": groups, "n_init": 1, "random_state": 0}
    model = craftc.CRAFT(3, **options).fit(frame)
    assert "of a covariance have the cluster NULL." in craftc.to_sql(model, "t")
    rows = frame.copy()
    rows.iloc[::3, 2] = np.nan
    result = scored(model, rows, "duckdb").sort_values("id").reset_index(drop=True)
    complete = result["cluster"].notna()
    assert complete.tolist() == rows["c2"].notna().tolist()
    tables.check(model, rows[complete].reset_index(drop=True), result[complete])
