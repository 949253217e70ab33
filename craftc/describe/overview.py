"""The HTML display of fitted estimators: one row per cluster, above scikit-learn's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from craftc.describe.facts import names_of
from craftc.describe.named import NamedClusters
from craftc.describe.view import ClusterView
from craftc.describe.words import count, percent, plural, shortened

_MOST_CLUSTERS = 20
_MOST_FEATURES = 3
_LONGEST = 80  # characters of a name or a value
_STYLE = """
.craftc-overview {font-family: sans-serif; margin-bottom: .5em}
.craftc-overview table {border-collapse: collapse; font-size: .92em}
.craftc-overview caption {text-align: left; font-weight: bold; padding-bottom: .3em}
.craftc-overview th, .craftc-overview td {text-align: left; vertical-align: top; padding: .2em .7em .2em 0;
  border-bottom: 1px solid rgba(128, 128, 128, .35); white-space: normal; max-width: 34em;
  overflow-wrap: anywhere}
.craftc-overview .number {text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums}
.craftc-overview p {margin: .3em 0}
"""


class HtmlOverview(NamedClusters):
    """Mixin for fitted estimators with clusters, before scikit-learn's base class."""

    def _overview_notes(self) -> list[str]:
        """Sentences below the clusters."""
        return []

    def _repr_html_inner(self) -> str:
        display: str = super()._repr_html_inner()  # type: ignore[misc]
        if not hasattr(self, "cluster_sizes_"):
            return display
        return overview_html(type(self).__name__, self._shown_clusters(), self._overview_notes()) + display

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def overview_html(title: str, view: ClusterView, notes: Sequence[str]) -> str:
    """A table of the largest clusters; all names and values are escaped."""
    K, names = len(view.sizes), names_of(view)
    named = [] if names is None else ["name"]
    head = "".join(
        _cell(text, tag="th", number=text in ("cluster", "rows", "share"))
        for text in ("cluster", *named, "rows", "share", "leading features")
    )
    lines = []
    for k in view.order[:_MOST_CLUSTERS].tolist():
        cells = [
            _cell(str(k), tag="th", number=True),
            *([] if names is None else [_cell(_text(names[k]))]),
            _cell(count(view.sizes[k]), number=True),
            _cell(percent(view.shares[k]), number=True),
            _cell(_features(view, k)),
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    title = f"{title}: {plural(K, 'cluster')}, {plural(len(view.columns), 'column')}"
    if K > _MOST_CLUSTERS:
        notes = [f"and {K - _MOST_CLUSTERS} more clusters", *notes]
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'<div class="craftc-overview"><style>{_STYLE}</style><table><caption>{escape(title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{below}</div>"
    )


def _features(view: ClusterView, k: int) -> str:
    leading = view.ranked(k)[:_MOST_FEATURES]
    texts = (f"<b>{_text(view.short[d])}</b> {_text(view.typical(k, d))}" for d in leading)
    return "; ".join(texts) or "like the whole table"


def _text(value: str) -> str:
    """A name or a value, escaped and shortened; its text direction does not affect its neighbours."""
    return f"<bdi>{escape(shortened(value, _LONGEST))}</bdi>"


def _cell(content: str, *, tag: str = "td", number: bool = False) -> str:
    kind = ' class="number"' if number else ""
    return f"<{tag}{kind}>{content}</{tag}>"
