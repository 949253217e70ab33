"""The plot of the test of structure: a dot for every table with permuted columns, a line for the table."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import CRAFT, plot
from craftc.craft.answers.path import NullTest

pytest.importorskip("matplotlib").use("Agg")


def drawn(saving, null):
    return plot.null_test(NullTest(saving, 3, np.array(null), np.ones(len(null), int), 100, False))


def dots_of(axes):
    return np.asarray(axes.collections[0].get_offsets())


def test_dots_and_line():
    axes = drawn(60.0, [0.0, 10.0, 0.0, 0.0])
    assert dots_of(axes).tolist() == [[0, 0], [0, 1], [0, 2], [10, 0]]
    assert axes.lines[0].get_xdata() == pytest.approx([60.0, 60.0])
    assert axes.texts[0].get_text() == "3 clusters: 60.0 nats"
    assert "4 tables with permuted columns; p = 0.2" in axes.get_xlabel()


@pytest.mark.parametrize(("saving", "null"), [(0.0, [0.0]), (-5.0, [-7.0, -9.0]), (1e7, [0.0] * 99)])
def test_extreme_values(saving, null):
    axes = drawn(saving, null)
    axes.figure.canvas.draw()
    low, high = axes.get_xlim()
    assert low < min(saving, *null) <= max(saving, *null) < high
    assert axes.get_ylim()[1] > dots_of(axes)[:, 1].max()


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match=r"the result of CRAFT\.null_test, got a CRAFT"):
        plot.null_test(CRAFT())
