"""Scales and periods in descriptions: summary, names, report, plots."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import craftc
from craftc import CRAFT, plot, report
from craftc.describe.columns import OrderedColumn, PeriodicColumn
from craftc.describe.statistics import column_statistics
from craftc.describe.words import clock

SCALE = ("disagree", "rather not", "neutral", "rather", "agree")
TABLE = [0.2, 0.2, 0.2, 0.2, 0.2]


def scale(*shares):
    return OrderedColumn(SCALE, np.array([*shares, TABLE]))


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ([0.05, 0.09, 0.15, 0.31, 0.4], "rather or higher 71 %"),
        ([0.5, 0.3, 0.2, 0.0, 0.0], "rather not or lower 80 %"),
        ([0.1, 0.1, 0.1, 0.1, 0.6], "agree 60 %"),
        ([0.6, 0.1, 0.1, 0.1, 0.1], "disagree 60 %"),
        ([0.05, 0.1, 0.7, 0.1, 0.05], "neutral 70 %"),
        ([0.02, 0.32, 0.32, 0.32, 0.02], "rather not to rather 96 %"),
        ([np.nan] * 5, "(all missing)"),
    ],
)
def test_typical_values_of_a_scale(shares, text):
    column = scale(shares)
    assert craftc.describe.columns.typical_text(column.typical(0)) == text
    assert column.typical(-1) == [(level, 0.2) for level in SCALE[:3]]


def test_scales_of_few_levels():
    for T in (1, 2, 3):
        column = OrderedColumn(SCALE[:T], np.vstack([np.eye(T)[-1], np.full(T, 1 / T)]))
        assert column.typical(0) == [(SCALE[T - 1], 1.0)]
    assert column.typical(-1, [1, 2]) == [("rather not or higher", pytest.approx(2 / 3))]


def periodic(means, deviations, lengths, period=24.0):
    means = np.array(means)
    rest = np.zeros(len(means)), np.tile(means[:, None], 3), np.full(len(means), np.nan), np.zeros(len(means))
    return PeriodicColumn(means, np.array(deviations), *rest, period=period, lengths=np.array(lengths, float))


def test_typical_values_of_a_period():
    column = periodic([22 + 2 / 3, 0.1, 7.0], [1.9, 3.0, 9.0], [0.9, 0.7, 0.01])
    assert [column.typical(k)[0][0] for k in range(3)] == ["22:40 ± 1.9 h", "00:06 ± 3 h", "spread over 24 h"]
    assert column.near(0, 1)
    assert not column.near(0, 2)
    months = periodic([11.23, 3.0], [1.12, 5.0], [0.9, 0.01], period=12.0)
    assert [months.typical(k)[0][0] for k in range(2)] == ["11.2 ± 1.1 of 12", "spread over 12"]
    assert column.in_order(np.array([1, 0, 2])).typical(0) == column.typical(1)
    assert [clock(hours) for hours in (0, 23.9999, 12.5, np.nan)] == ["00:00", "00:00", "12:30", "–"]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=240)
    frame = pd.DataFrame(
        {f"q{j}": np.array(SCALE)[rng.binomial(4, np.where(group, 0.8, 0.2))] for j in range(3)}
    )
    frame = frame.astype(pd.CategoricalDtype(SCALE, ordered=True))
    frame["hour"] = np.round(rng.normal(np.where(group, 23.0, 11.0), 1.5)) % 24
    frame["month"] = np.round(rng.normal(np.where(group, 0.0, 6.0), 1.0)) % 12
    frame.loc[::11, ["hour", "q0"]] = None
    kinds = {"hour": "periodic", "month": ("periodic", 12)}
    return CRAFT(kinds=kinds, random_state=0, n_init=2).fit(frame), frame, group


def test_summary_and_names(fitted):
    model, _, group = fitted
    assert model.n_clusters_ == 2
    summary = model.summary().set_index(["cluster", "feature"])
    late = int(model.labels_[group == 1][0])
    assert re.fullmatch(r"(23:\d\d|22:[3-5]\d) ± 1\.\d h", summary.loc[(late, "hour"), "in the cluster"])
    month = summary.loc[(late, "month"), "in the cluster"]
    assert re.fullmatch(r"(11\.\d+|0\.\d+) ± \d\.?\d* of 12", month)
    assert re.fullmatch(r"(neutral|rather) or higher \d\d %", summary.loc[(late, "q1"), "in the cluster"])
    assert re.fullmatch(r"(neutral|rather) or higher \d\d %", summary.loc[(late, "q1"), "in the whole table"])
    assert any("hour near 2" in name or "month near" in name for name in model.cluster_names_)


def test_mean_directions_are_those_of_the_cells(fitted):
    model, frame, _ = fitted
    statistics = column_statistics(
        model._fitted.original_moments,
        model.schema_,
        model._fitted.clusters.moments,
        model._fitted.encoding.numbers,
    )
    column = statistics[3]
    assert isinstance(column, PeriodicColumn)
    assert isinstance(statistics[0], OrderedColumn)
    for k in range(2):
        turn = np.exp(2j * np.pi * frame["hour"][model.labels_ == k].dropna() / 24).mean()
        assert column.means[k] == pytest.approx(np.angle(turn) / (2 * np.pi) * 24 % 24)
        expected = np.sqrt(-2 * np.log(abs(turn))) / (2 * np.pi) * 24
        assert column.deviations[k] == pytest.approx(expected)


def test_report_and_plots(fitted, tmp_path):
    model, frame, _ = fitted
    report.write(model, frame, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "or higher" in page
    assert "± 1." in page
    order = [label.get_text() for label in plot.distribution(model, "q0").get_xticklabels()]
    assert order == list(SCALE)
    plot.distribution(model, "q0", frame)
    plot.distribution(model, "hour", frame)
    plot.distribution(model, "month")
