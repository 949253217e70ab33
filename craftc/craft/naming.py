"""Names of clusters: up to three facts of a few words each, such as "Husband, often Male, low age"."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from craftc.craft.summary import differing_features
from craftc.describe.frames import short_number
from craftc.describe.statistics import in_units, level_shares
from craftc.table.frames import MISSING_LEVEL

MOST_FACTS, _FEWEST_FACTS = 3, 2
_LEAST_GAIN = 0.04  # nats per row
_APART, _EXACT, _NARROW = (
    0.45,
    1e-6,
    0.5,
)  # deviations of the table: of a mean that is high or low; within equal values; within close ones
_ROUNDED = 1e-9  # deviations of the table
_MOST, _OFTEN, _LIFT = (
    0.6,
    0.4,
    1.5,
)  # shares of the rows with a level, and the latter over the share in the table
_SECOND, _SECOND_LIFT = 0.15, 1.25  # the same of a second level
_ALIKE, _SAME, _HALF = (
    0.5,
    0.9,
    0.5,
)  # shares of information: one of the columns is named; a category is, if it holds for half the rows
_LONGEST = 30  # characters of a level or column
_NOT_WORDS = frozenset(
    (
        "true",
        "false",
        "yes",
        "no",
        "none",
        "other",
        "others",
        "unknown",
        "nan",
        "null",
        "missing",
        MISSING_LEVEL,
    )
)


@dataclass
class Fact:
    """How a cluster differs from the whole table in one column.

    Parameters
    ----------
    column : int
        Input column.
    text : str
    levels : tuple of int
        Levels that the fact names; empty for a numeric column.
    share : float
        Share of the cluster's rows with one of them; 1 for a numeric column.
    """

    column: int
    text: str
    levels: tuple[int, ...] = ()
    share: float = 1.0


def cluster_names(model: Any) -> list[str]:
    """Names of the clusters of a fitted CRAFT, by falling gains of the features in which they differ from the
    whole table.

    A fact is skipped if its column repeats half of the information of one already named, or if a level
    already named implies it in nine of ten rows of the table. A category is preferred to a number that says
    the same. Equal names are numbered.
    """
    facts, listed = _Facts(model), differing_features(model)
    names: list[str] = []
    for k in range(model.n_clusters_):
        order = [d for d in np.argsort(-model.feature_gains_[k], kind="stable").tolist() if listed[k, d]]
        names.append(", ".join(fact.text for fact in _chosen(facts, k, order)) or facts.fallback(k, order))
    by_size = np.argsort(-np.asarray(model.cluster_sizes_, np.float64), kind="stable").tolist()
    seen: Counter[str] = Counter()
    for k in by_size:
        seen[names[k]] += 1
        if seen[names[k]] > 1:
            names[k] += f" ({seen[names[k]]})"
    return names


def _chosen(facts: _Facts, k: int, order: list[int]) -> list[Fact]:
    """The facts of a name.

    If repeated information leaves fewer than two, columns that do not say nearly the same are accepted.
    """
    usable = [fact for d in order if (fact := facts.fact(k, d)) is not None]
    for i, fact in enumerate(usable):
        if not fact.levels:  # a category that says the same reads better than its number
            same = (other for other in usable if other.levels and other.share >= _HALF)
            usable[i] = next(
                (other for other in same if facts.alike(fact.column, other.column) >= _SAME), fact
            )
    chosen: list[Fact] = []
    for most_alike, most_facts in ((_ALIKE, MOST_FACTS), (_SAME, _FEWEST_FACTS)):
        for fact in usable:
            repeats = any(
                facts.alike(fact.column, other.column) >= most_alike or facts.implies(other, fact)
                for other in chosen
            )
            if not repeats and len(chosen) < most_facts:
                chosen.append(fact)
    return chosen


class _Facts:
    """Facts about the columns of a fitted CRAFT, from its exact sums in the original units."""

    def __init__(self, model: Any) -> None:
        self._schema, moments = model.schema_, model._moments_original_units
        total, grid = moments.total(), moments.grid
        self._gain_per_row = model.feature_gains_ / moments.sizes[:, None]
        self._means, self._deviations = in_units(moments)
        self._mean, self._deviation = (values[0] for values in in_units(total))
        starts = [
            slice(start, start + len(levels))
            for start, levels in zip(grid.level_start, self._schema.levels, strict=True)
        ]
        self._shares = [level_shares(moments.counts[:, at]) for at in starts]
        self._share = [level_shares(total.counts[:, at])[0] for at in starts]
        self._numeric = {int(d): j for j, d in enumerate(self._schema.numeric_index)}
        self._categorical = {int(d): j for j, d in enumerate(self._schema.categorical_index)}
        self._alike: dict[tuple[int, int], float] = {(a, b): share for a, b, share in model._links.alike}
        self._implied = set(model._links.implied)
        self._columns_of_level = Counter(
            str(level).strip().casefold() for levels in self._schema.levels for level in set(levels)
        )

    def alike(self, a: int, b: int) -> float:
        """Share of the information of the simpler of two columns that the other has; 0 if it is below a half."""
        return 1.0 if a == b else self._alike.get((min(a, b), max(a, b)), 0.0)

    def implies(self, fact: Fact, other: Fact) -> bool:
        """Whether rows of the table with the levels of a fact nearly always have those of the other."""
        return bool(fact.levels and other.levels) and all(
            any((fact.column, s, other.column, t) in self._implied for t in other.levels) for s in fact.levels
        )

    def fact(self, k: int, d: int) -> Fact | None:
        """The fact about a column in a cluster, if it is clear enough for a name."""
        if self._gain_per_row[k, d] < _LEAST_GAIN:
            return None
        return self._of_number(k, d) if d in self._numeric else self._of_levels(k, d)

    def fallback(self, k: int, order: list[int]) -> str:
        """The name of a cluster without a clear fact."""
        if not order:
            return "like the whole table"
        name, j = _shortened(str(self._schema.columns[order[0]])), self._numeric.get(order[0])
        if j is not None and self._deviations[k, j] < _NARROW * self._deviation[j]:
            digits = -math.floor(math.log10(0.1 * self._deviation[j]))  # to a tenth of the column's deviation
            return f"{name} near {short_number(round(float(self._means[k, j]), digits))}"
        return f"another distribution of {name}"

    def _of_number(self, k: int, d: int) -> Fact | None:
        j, name = self._numeric[d], _shortened(str(self._schema.columns[d]))
        mean, unit = self._means[k, j], self._deviation[j]
        if not np.isfinite(mean) or not unit > 0:
            return None
        if self._deviations[k, j] < _EXACT * unit:
            exact = (
                0.0 if abs(mean) < _ROUNDED * unit else mean
            )  # the mean of equal values is exact up to the grid of the sums
            return Fact(d, f"{name} {short_number(exact)}")
        apart = (mean - self._mean[j]) / unit
        return Fact(d, f"{'high' if apart > 0 else 'low'} {name}") if abs(apart) >= _APART else None

    def _of_levels(self, k: int, d: int) -> Fact | None:
        """The level with the largest part of the divergence from the table, or two levels that hold for most
        rows together.
        """
        j = self._categorical[d]
        own, of, levels = self._shares[j][k], self._share[j], self._schema.levels[j]
        if np.isnan(own).any():  # all cells are missing
            return None
        part = np.where(own > 0, own * np.log(np.maximum(own, 1e-300) / np.maximum(of, 1e-300)), 0.0)
        order = np.argsort(-part, kind="stable").tolist()
        chosen = order[:1]
        if own[chosen[0]] < _MOST and len(levels) > 2:
            more = [t for t in order[1:] if own[t] >= _SECOND and own[t] >= _SECOND_LIFT * of[t]]
            if more and own[chosen[0]] + own[more[0]] >= _MOST:
                chosen = sorted([chosen[0], more[0]], key=lambda t: -own[t])
        share = float(own[chosen].sum())
        if share < _MOST and not (share >= _OFTEN and share >= _LIFT * of[chosen].sum()):
            return None
        words = [str(levels[t]).strip() for t in chosen]
        text = " or ".join(_shortened(word) for word in words)
        if not all(self._is_word(word) for word in words):
            text = f"{_shortened(str(self._schema.columns[d]))} {text}"
        return Fact(d, text if share >= _MOST else f"often {text}", tuple(chosen), share)

    def _is_word(self, level: str) -> bool:
        """Whether a level is understood without its column: a word, and a level of this column alone."""
        text = level.casefold()
        return (
            len(text) >= 3
            and any(c.isalpha() for c in text)
            and text not in _NOT_WORDS
            and self._columns_of_level[text] == 1
        )


def _shortened(text: str) -> str:
    """A name on one line, without characters that do not print."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text[: 4 * _LONGEST].split()))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
