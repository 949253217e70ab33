"""The HTML display of fitted estimators in notebooks: one row per cluster, above scikit-learn's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from craftc._common.typing import Bits, Floats

_MOST_CLUSTERS = 20
_MOST_FEATURES = 3
_LONGEST = 80  # characters of a name or a value
_STYLE = """
.craftc-overview {font-family: sans-serif; margin-bottom: .5em}
.craftc-overview table {border-collapse: collapse; font-size: .92em}
.craftc-overview caption {text-align: left; font-weight: bold; padding-bottom: .3em}
.craftc-overview th, .craftc-overview td {text-align: left; vertical-align: top; padding: .2em .7em .2em 0;
  border-bottom: 1px solid rgba(128, 128, 128, .35); white-space: normal; max-width: 34em; overflow-wrap: anywhere}
.craftc-overview .number {text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums}
.craftc-overview p {margin: .3em 0}
"""


class Overview(NamedTuple):
    """What the display of a fitted estimator shows of its clusters."""

    names: Sequence[str] | None  # of the K clusters
    columns: Sequence[Any]  # names of the D input columns
    values: Sequence[Sequence[str]]  # (K, D) typical values
    differs: Bits  # (K, D)
    gains: Floats  # (K, D) nats
    notes: Sequence[str]


class HtmlOverview:
    """Mixin for estimators with clusters, before scikit-learn's base class; unfitted they have scikit-learn's
    display alone.
    """

    def _overview(self) -> Overview:
        """The clusters of the fitted estimator."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        display: str = super()._repr_html_inner()  # type: ignore[misc]
        return overview_html(self, self._overview()) + display if hasattr(self, "cluster_sizes_") else display

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def overview_html(model: Any, overview: Overview) -> str:
    """A table of the largest clusters: number, name, rows, share and leading features.

    All names and values are escaped.
    """
    sizes = np.asarray(model.cluster_sizes_, np.float64)
    order = np.argsort(-sizes, kind="stable")
    K, total = len(sizes), sizes.sum()
    named = ["name"] if overview.names is not None else []
    head = "".join(
        _cell(text, tag="th", number=text in ("cluster", "rows", "share"))
        for text in ("cluster", *named, "rows", "share", "leading features")
    )
    lines = []
    for k in order[:_MOST_CLUSTERS].tolist():
        name = [] if overview.names is None else [_cell(_text(overview.names[k]))]
        size = f"{sizes[k]:,.0f}" if sizes[k] == round(sizes[k]) else f"{sizes[k]:,.1f}"
        numbers = [_cell(text, number=True) for text in (size, f"{100 * sizes[k] / total:.0f} %")]
        lines.append(
            f"<tr>{''.join([_cell(str(k), tag='th', number=True), *name, *numbers, _cell(_features(overview, k))])}</tr>"
        )
    title = f"{type(model).__name__}: {K} cluster{'' if K == 1 else 's'}, {model.n_features_in_} columns"
    notes = list(overview.notes)
    if K > _MOST_CLUSTERS:
        notes.insert(0, f"and {K - _MOST_CLUSTERS} more clusters")
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'<div class="craftc-overview"><style>{_STYLE}</style><table><caption>{escape(title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{below}</div>"
    )


def _features(overview: Overview, k: int) -> str:
    """The features with the largest gains in a cluster, with their typical values."""
    ranked = [d for d in np.argsort(-overview.gains[k], kind="stable").tolist() if overview.differs[k, d]]
    if not ranked:
        return "like the whole table"
    return "; ".join(
        f"<b>{_text(overview.columns[d])}</b> {_text(overview.values[k][d])}" for d in ranked[:_MOST_FEATURES]
    )


def _text(value: Any) -> str:
    """A name or a value, escaped and shortened; its text direction does not affect its neighbours."""
    text = str(value)
    return f"<bdi>{escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…')}</bdi>"


def _cell(content: str, *, tag: str = "td", number: bool = False) -> str:
    kind = ' class="number"' if number else ""
    return f"<{tag}{kind}>{content}</{tag}>"
