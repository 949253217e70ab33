"""The parameters of CRAFT: each checked, and turned into what the search works with."""

from __future__ import annotations

import numbers
from typing import Any

from craftc._common.typing import Labels
from craftc._common.validation import check_choice, check_labels, check_number
from craftc.craft.clusters import Rules
from craftc.craft.diagnostics import distinct_rows
from craftc.table import MixedTable


def rules_of(model: Any) -> Rules:
    """Rules of the model from the parameters, each checked."""
    check_choice("selection", model.selection, ("priced", "fixed", "free", "threshold", "global"))
    check_choice("model", model.model, ("likelihood", "paper", "paper-fixed"))
    check_choice("numeric", model.numeric, ("auto", "raw", "rank"))
    check_choice("missing", model.missing, ("ignore", "category", "error"))
    check_choice("unknown", model.unknown, ("ignore", "error"))
    if isinstance(model.cluster_price, str):
        check_choice("cluster_price", model.cluster_price, ("auto", "farthest-first"), "or a number of nats >= 0")
        if model.cluster_price == "farthest-first" and model.n_clusters is None:
            raise ValueError("cluster_price='farthest-first' needs a guess of the number of clusters: give n_clusters.")
    else:
        check_number("cluster_price", model.cluster_price, least=0.0)
    check_number("price_factor", model.price_factor, above=0.0)
    m = check_number("feature_fraction", model.feature_fraction, above=0.0, most=1.0)
    if model.feature_sharing is not None:
        if m == 1.0:
            raise ValueError("feature_sharing has no meaning with feature_fraction=1; leave it None.")
        check_number("feature_sharing", model.feature_sharing, above=0.0, below=m * (1 - m), hint="m(1 - m)")
    check_number("categorical_threshold", model.categorical_threshold, least=0.0)
    check_number("numeric_threshold", model.numeric_threshold, least=0.0)
    for name in ("max_clusters", "n_init", "max_iter"):
        check_number(name, getattr(model, name), least=1, whole=True)
    if model.n_clusters is not None:
        check_number("n_clusters", model.n_clusters, least=1, whole=True)
    return Rules(
        model.model,
        "fixed" if model.selection == "priced" and model.model != "likelihood" else model.selection,
        None if model._automatic else 0.0,
        float(model.price_factor),
        m,
        model.feature_sharing,
        float(model.categorical_threshold),
        float(model.numeric_threshold),
    )


def check_size(model: Any, table: MixedTable) -> None:
    """Raise if more clusters are wished than the table can have."""
    if model.n_clusters is not None and model.n_clusters > len(table):
        raise ValueError(f"n_clusters={model.n_clusters} is more than the {len(table)} rows of the table; ask for fewer clusters.")
    if model.n_clusters is not None and model._automatic:
        found = distinct_rows(table, int(model.n_clusters))
        if found < model.n_clusters:
            raise ValueError(f"n_clusters={model.n_clusters} is more than the {found} distinct rows of the table; ask for fewer clusters.")


def given_starts(model: Any, n: int) -> list[Labels] | None:
    """Start partitions given as arrays, checked; None when `init` names a rule."""
    if isinstance(model.init, str):
        check_choice("init", model.init, ("auto", "single", "random", "farthest"), "or labels")
        return None
    many = isinstance(model.init, (list, tuple)) and len(model.init) > 0 and not isinstance(model.init[0], numbers.Number)
    starts = [check_labels(labels, n) for labels in (model.init if many else [model.init])]
    cap = model._cap()
    for labels in starts:
        if labels.max() >= cap:
            raise ValueError(f"init has {labels.max() + 1} clusters but at most {cap} are allowed; raise n_clusters or max_clusters.")
    return starts
