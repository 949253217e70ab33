"""Random models, tables for them, and the engines that score them."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing

import numpy as np

import craftc
from craftc.describe.view import numbers_by_size

NASTY = [
    "it's",
    'a "q"',
    "new\nline",
    "tab\t",
    "back\\slash",
    "ü\u00df\u6f22",
    "A",
    "a",
    "a ",
    "",
    "%_",
    "--x",
    "/*",
    ";",
    "NULL",
]


def random_table(rng, n=300):
    """Columns of all kinds, with groups in some of them and missing cells in others."""
    import pandas as pd

    groups = rng.integers(0, int(rng.integers(1, 5)), n)
    columns = {}
    for at in range(int(rng.integers(2, 7))):
        kind = rng.choice(
            ["normal", "skewed", "whole", "spike", "text", "many", "truth", "period", "wide", "order"]
        )
        shift = 3.0 * groups * rng.integers(0, 2)
        name = f"{kind}{at}"
        if kind == "normal":
            columns[name] = rng.normal(shift, 1.0)
        elif kind == "skewed":
            columns[name] = np.exp(rng.normal(shift / 2, 1.0))
        elif kind == "whole":
            columns[name] = rng.integers(-3, 4, n) + shift.astype(int)
        elif kind == "spike":
            columns[name] = np.where(rng.random(n) < 0.4, 0.0, rng.normal(shift, 1.0).round(2))
        elif kind == "text":
            columns[name] = np.array(NASTY, object)[(groups + rng.integers(0, 4, n)) % len(NASTY)]
        elif kind == "many":
            columns[name] = np.array([f"l'{i}" for i in range(300)], object)[
                (groups * 50 + rng.integers(0, 120, n)) % 300
            ]
        elif kind == "truth":
            columns[name] = rng.random(n) < 0.2 + 0.15 * groups
        elif kind == "period":
            columns[name] = (rng.normal(6.0 * groups, 2.0, n) % 24.0).round(int(rng.integers(0, 3)))
        elif kind == "wide":
            columns[name] = 1e6 * rng.normal(shift, 1.0)
        else:
            columns[name] = np.clip(groups + rng.integers(0, 3, n), 0, 5)
    if rng.random() < 0.5:  # two dependent columns
        base = rng.normal(2.0 * groups, 1.0)
        columns["slant a"], columns["slant b"] = (
            base,
            base * (1 - 0.5 * (groups % 2)) + 0.2 * rng.normal(size=n),
        )
    frame = pd.DataFrame(columns)
    for name in frame.columns:
        if not name.startswith("slant") and rng.random() < 0.4:
            lost = rng.random(n) < 0.2
            frame[name] = (
                frame[name].astype(object if frame[name].dtype == bool else frame[name].dtype).mask(lost)
            )
    return frame


def kinds_of(frame):
    kinds = {name: ("periodic", 24.0) for name in frame if name.startswith("period")}
    return kinds | {name: "ordered" for name in frame if name.startswith("order")}


def new_rows(frame, rng, n=200):
    """Rows of the table with cells from other rows, and cells that the fit has not seen."""
    rows = frame.sample(n, replace=True, random_state=int(rng.integers(1 << 30))).reset_index(drop=True)
    for name in rows.columns:
        other = frame[name].sample(n, replace=True, random_state=int(rng.integers(1 << 30))).to_numpy()
        rows[name] = rows[name].where(rng.random(n) < 0.7, other)
        if rows[name].dtype.kind == "f":
            rows.loc[rng.random(n) < 0.05, name] = 1e9 * rng.choice([-1.0, 1.0])
        elif rows[name].dtype == object and isinstance(frame[name].dropna().iloc[0], str):
            rows.loc[rng.random(n) < 0.05, name] = "unseen"
        if rows[name].dtype.kind != "b" and rows[name].dtype.kind != "i":
            rows.loc[rng.random(n) < 0.1, name] = None
    return rows


def random_model(frame, rng):
    """A fitted model of any class that can be exported."""
    seed = int(rng.integers(1000))
    word = rng.choice(
        ["craft", "craft", "craft", "covariance", "covariance", "paper", "modes", "prototypes", "means"]
    )
    missing = rng.choice(["ignore", "ignore", "category"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if word == "craft":
            model = craftc.CRAFT(
                kinds=kinds_of(frame), missing=missing, n_init=2, random_state=seed, price_factor=1.0
            )
            return model.fit(frame), frame
        if word == "covariance":
            own = frame[
                [name for name in frame if frame[name].dtype.kind == "f" and not name.startswith("period")]
            ]
            if own.shape[1] < 2:
                own = frame
            form = str(rng.choice(["auto", "full", "tied"]))
            model = craftc.CRAFT(covariance=form, n_init=2, random_state=seed, price_factor=1.0)
            return model.fit(own), own
        if word == "paper":
            form = {
                "model": str(rng.choice(["paper", "likelihood", "paper-relative", "paper-fixed"])),
                "numeric": str(rng.choice(["raw", "auto", "rank"])),
            }
            return craftc.PaperCRAFT(n_clusters=3, missing=missing, random_state=seed, n_init=2, **form).fit(
                frame
            ), frame
        if word == "modes":
            own = frame[[name for name in frame if frame[name].dtype.kind in "Ob"]]
            if own.shape[1]:
                dissimilarity = str(rng.choice(["matching", "ng"]))
                return craftc.KModes(
                    4, cat_dissim=dissimilarity, n_init=1, missing=missing, random_state=seed
                ).fit(own), own
        numbers = frame[[name for name in frame if frame[name].dtype.kind in "if"]]
        if word == "means" and numbers.shape[1]:
            own = numbers.fillna(0.0)
            form = str(rng.choice(["spherical", "full", "full-sized"]))
            return craftc.DPMeans(n_clusters=3, covariance=form, random_state=seed).fit(own), own
        return craftc.KPrototypes(4, n_init=1, missing=missing, random_state=seed).fit(frame), frame


def duckdb_result(statement, table):
    import duckdb

    with duckdb.connect() as connection:
        connection.register("t", table)
        return connection.sql(statement).df()


def sqlite_result(statement, table):
    import pandas as pd

    with closing(sqlite3.connect(":memory:")) as connection:
        table.to_sql("t", connection, index=False)
        return pd.read_sql(statement, connection)


ENGINES = {"duckdb": duckdb_result, "sqlite": sqlite_result}


def check(model, rows, result, tolerance=1e-6):
    """Every row with a margin has the cluster of `predict`."""
    ordered = result.sort_values("id")
    labels = model.predict(rows)
    wanted = numbers_by_size(model.cluster_sizes_)[labels]
    found = ordered["cluster"].to_numpy()
    if (
        hasattr(model, "_prototypes")
        and not len(model._prototypes.means.T)
        and model.cat_dissim == "matching"
    ):
        assert (found == wanted).all()  # whole numbers, whose ties are exact
    sure = ordered["margin"].isna().to_numpy() | (ordered["margin"].to_numpy(dtype=float) > tolerance)
    assert len(ordered) == len(rows)
    assert (found[sure] == wanted[sure]).all()
    if hasattr(model, "margins") and model.n_clusters_ > 1:
        np.testing.assert_allclose(
            ordered["margin"].to_numpy(dtype=float), model.margins(rows), rtol=1e-7, atol=1e-6
        )
