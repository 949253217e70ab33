"""The HTML display of fitted estimators: its facts, its escapes, and its agreement with scikit-learn's."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn

from craftc import CRAFT, FeatureSelectionMixture
from craftc.datasets import load_heart, make_mixed


class Table(HTMLParser):
    """Cells of the rows of the first table, caption, paragraphs, and the tags of all."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.tags, self.text, self.caption, self.notes = [], [], [], "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th", "caption", "p"):
            self.text = []

    def handle_endtag(self, tag):
        text = "".join(self.text)
        if tag in ("td", "th"):
            self.rows[-1].append(text)
        elif tag == "caption":
            self.caption = text
        elif tag == "p":
            self.notes.append(text)

    def handle_data(self, data):
        self.text.append(data)


def overview_of(model):
    page = model._repr_html_()
    return Table(page[: page.index("</div>")])


@pytest.fixture(scope="module")
def heart():
    return CRAFT(random_state=0).fit(load_heart().data)


def test_one_row_per_cluster_by_size(heart):
    found = overview_of(heart)
    assert found.caption == "CRAFT: 2 clusters, 13 columns"
    assert found.rows[0] == ["cluster", "name", "rows", "share", "leading features"]
    order = np.argsort(-heart.cluster_sizes_)
    for row, k in zip(found.rows[1:], order, strict=True):
        assert row[:4] == [
            str(k),
            heart.cluster_names_[k],
            f"{heart.cluster_sizes_[k]}",
            f"{heart.cluster_sizes_[k] / 2.7:.0f} %",
        ]
        summary = heart.summary()
        leading = summary[summary["cluster"] == k][:3]
        assert row[4] == "; ".join(leading["feature"] + " " + leading["in the cluster"])


def test_it_agrees_with_the_mime_bundle(heart):
    def plain(page):
        return re.sub(r"sk-(container|estimator)-id-\d+", "", page)

    bundle = heart._repr_mimebundle_()
    assert plain(bundle["text/html"]) == plain(heart._repr_html_())
    assert bundle["text/plain"] == repr(heart)
    assert "sk-" in heart._repr_html_()  # scikit-learn's parameters follow
    with sklearn.config_context(display="text"):
        assert set(heart._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(heart, "_repr_html_")


def test_a_fit_with_the_same_seed_has_the_same_display(heart):
    again = CRAFT(random_state=0).fit(load_heart().data)
    assert " at 0x" not in heart._repr_html_()
    assert repr(again.merge_path_) == repr(heart.merge_path_) == "MergePath(2 to 1 clusters)"


def test_unfitted_estimators_have_the_display_of_scikit_learn():
    for model in (CRAFT(), FeatureSelectionMixture()):
        assert "craftc-overview" not in model._repr_html_()
        assert "craftc-overview" not in model._repr_mimebundle_()["text/html"]
        assert "sk-" in model._repr_html_()


def test_names_and_levels_are_text():
    rng = np.random.default_rng(0)
    half = np.arange(80) % 2
    script = "<script>alert('a')</script>"
    table = {
        '<img src=x onerror="b()">': np.where(half == 0, script, "\"'&<b>"),
        "</div>" + "long" * 100: rng.normal(9.0 * half),
    }
    page = CRAFT(2, random_state=0).fit(table)._repr_html_()
    assert "&lt;script&gt;" in page
    overview = page[: page.index("</table>")]
    found = Table(overview)
    assert {tag for tag, _ in found.tags} == {
        "div",
        "style",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "bdi",
        "b",
    }
    assert all(set(attrs) <= {"class"} for _, attrs in found.tags)
    assert script in found.rows[1][4] + found.rows[2][4]
    assert len(overview) < 4000


def test_at_most_twenty_rows():
    X = make_mixed(1500, 30, n_numeric=10, n_categorical=8, n_irrelevant=0, shift=6.0, random_state=0).data
    model = CRAFT(30, price_factor=1, random_state=0, n_init=1).fit(X)
    found = overview_of(model)
    assert len(found.rows) == 21
    assert found.notes[0] == "and 10 more clusters"


def test_one_cluster_and_weights():
    X = np.random.default_rng(0).normal(size=(40, 2))
    found = overview_of(CRAFT(1, random_state=0).fit(X, sample_weight=np.full(40, 0.25)))
    assert found.caption == "CRAFT: 1 cluster, 2 columns"
    assert found.rows[1] == ["0", "like the whole table", "10", "100 %", "like the whole table"]


def test_the_mixture_has_no_names():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, 3)), rng.normal(8, 1, (40, 3))])
    model = FeatureSelectionMixture(4, random_state=0).fit(X)
    found = overview_of(model)
    assert found.rows[0] == ["cluster", "rows", "share", "leading features"]
    assert [row[:3] for row in found.rows[1:]] == [["0", "60", "60 %"], ["1", "40", "40 %"]]
    d = int(np.argmax(model.feature_gains_[0]))
    assert found.rows[1][3].startswith(f"x{d} ")
