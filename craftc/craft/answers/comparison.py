"""How far the rows of a table are from those on which a CRAFT was fitted, in nats per row.

Three kinds of numbers, each 0 where the new rows are drawn as those of the fit were: the divergence KL(new ||
fit) of the distribution of every column, that of the shares of the clusters, and the nats by which rows are
less probable under the model. By chance alone, the divergence of n and N rows exceeds 0 by (P / 2) (1 / n + 1
/ N) with P parameters, T - 1 of T levels, and a mean differs by some standard errors; both are subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import output_frame
from craftc._common.typing import Floats, FrameInput, Integers, Labels, OutputFrame, PathInput
from craftc._common.validation import check_weight
from craftc.craft.base import CraftBase, is_a_density
from craftc.craft.rows.scores import densities_of
from craftc.describe.words import clean, percent, plural
from craftc.reading.read_table import as_in_fit
from craftc.table import MixedTable
from craftc.table.other_ranges import warn_of_other_ranges

_PRIOR = 0.5  # rows of every level besides those of the fit
_ERRORS = 2.0  # standard errors of a mean


@dataclass(frozen=True, repr=False)
class Comparison:
    """How a table differs from the one on which a model was fitted; the result of `compare`.

    A row of weight 2 counts as two equal rows, in the fit and here.

    Attributes
    ----------
    names : list of K str
        Of the clusters.
    then, now : ndarray (K,) of float64
        Shares of the rows in every cluster.
    sizes : ndarray (K,) of float64
        Rows of the table (with weights: their sum) in every cluster.
    columns : list of D str
        Input columns.
    feature_drift : ndarray (D,) of float64
        Nats by which the distribution of a column, missing cells included, diverges from that of the fit,
        beyond chance.
    missing : ndarray (2, D) of float64
        Shares of the cells that are missing, or of a level that the fit has not seen, then and now.
    cluster_drift : float
        Nats by which the shares of the clusters diverge from those of the fit, beyond chance.
    scores : (float, float) or None
        Mean log probability of a row, then and now, in nats; None where the model does not know it.
    score_drift : float
        Nats by which rows are less probable than those of the fit, beyond two standard errors.
    n_rows : int
        Rows of the table, those of weight 0 not counted.
    labels : ndarray (n,) of int32
        Clusters of the new rows; empty where files were read in batches.
    notes : list of str
        How the cells of a file, or of a frame with texts, were read.
    """

    names: list[str]
    then: Floats
    now: Floats
    sizes: Floats
    columns: Sequence[object]
    feature_drift: Floats
    missing: Floats
    cluster_drift: float
    scores: tuple[float, float] | None
    score_drift: float
    n_rows: int
    labels: Labels
    notes: list[str]
    _library: str | None = None

    def __repr__(self) -> str:
        k = int(np.abs(self.now - self.then).argmax())
        share = f"cluster {k} ({self.names[k]}) {percent(self.then[k])} then, {percent(self.now[k])} now"
        most = f", most in {self.cause}" if self.drift > 0.0 else ""
        return f"Comparison({plural(self.n_rows, 'row')}; drift {self.drift:.3g} nats{most}; {share})"

    @property
    def drift(self) -> float:
        """The largest of `cluster_drift`, `score_drift` and `feature_drift`, nats: .1 is a clear shift of one
        column, 1 another population.
        """
        return max(self.cluster_drift, self.score_drift, float(self.feature_drift.max(initial=0.0)))

    @property
    def cause(self) -> str:
        """What has moved furthest, in words."""
        if self.drift == 0.0:
            return "nothing"
        d = int(self.feature_drift.argmax())
        if self.feature_drift[d] == self.drift:
            return f"the distribution of column {clean(self.columns[d])!r}"
        shares = self.cluster_drift == self.drift
        return "the shares of the clusters" if shares else "the probability of the rows"

    def clusters(self) -> OutputFrame:
        """Data frame of the clusters, largest in the fit first: cluster, name, share then and now, and the
        change.
        """
        order = np.argsort(-self.then, kind="stable")
        table = {
            "cluster": order,
            "name": [self.names[k] for k in order],
            "then": self.then[order],
            "now": self.now[order],
        }
        return output_frame(table | {"change": (self.now - self.then)[order]}, self._library)

    def features(self) -> OutputFrame:
        """Data frame of the columns, largest drift first: feature, drift in nats, and shares of missing or
        unseen cells then and now.
        """
        order = np.argsort(-self.feature_drift, kind="stable")
        then, now = self.missing[:, order]
        names = [self.columns[d] for d in order]
        table = {"feature": names, "drift": self.feature_drift[order]}
        return output_frame(table | {"missing then": then, "missing now": now}, self._library)


def compare(
    model: CraftBase, table: FrameInput | PathInput, *, sample_weight: ArrayLike | None = None
) -> Comparison:
    """Compare another table with the one on which a CRAFT was fitted: cluster sizes then and now, and columns
    that have changed. ``craftc compare`` prints the same numbers.

    Parameters
    ----------
    model : CRAFT or PaperCRAFT
        Fitted; not one of the paper's models.
    table : data frame, array (n, D), MixedTable or path
        New rows, with the columns of the model: customers of another quarter, say. A file, and a frame with
        texts or dates, are read as the table of the fit was, as by ``read_table(table, like=model)``.
    sample_weight : array (n,), optional
        Weights of the new rows: a row of weight 2 counts twice in all numbers. Pass them if the rows of the
        fit had weights; rows without are not comparable.

    Returns
    -------
    Comparison
        Shares of the clusters then and now, the drift of every column, and the clusters of the new rows.

    Raises
    ------
    TypeError, ValueError
        The model is no fitted CRAFT, the table does not have its columns or has no rows, or cells contradict
        how the table of the fit was read.

    Examples
    --------
    >>> from craftc import CRAFT, compare
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> model = CRAFT(random_state=0).fit(heart)
    >>> older = compare(model, heart[heart["age"] > 55])
    >>> older.now.round(2).tolist(), older.then.round(2).tolist()
    ([0.68, 0.32], [0.48, 0.52])
    >>> older.features()["feature"][0]
    'age'
    """
    if not isinstance(model, CraftBase):
        raise TypeError(f"compare needs a fitted CRAFT, got {type(model).__name__}.")
    check_is_fitted(model)
    is_a_density(model)
    read, notes = as_in_fit(model, table)
    rows = model._read_columns(cast(FrameInput, read))
    drift = Drift(model)
    labels = drift.add(rows, check_weight(sample_weight, len(rows)))
    return drift.comparison(labels, notes)


class Drift:
    """Sums over the rows of a table, added part by part, by which they are compared with those of the fit.

    `scaled`: whether weights are scaled to the number of rows that they are worth (`scaled_to_worth`).
    """

    def __init__(self, model: CraftBase, *, scaled: bool = False) -> None:
        self._model, clusters = model, model._fitted.clusters
        self._grid, self.n_rows, self._scaled = clusters.moments.grid, 0, scaled
        self._weights = np.zeros(2)  # their sum, and that of their squares
        self._counts = np.zeros(self._grid.n_levels)
        self._numbers = np.zeros((3, self._grid.p))  # cells, and their sums and squares in steps of the grid
        self._sizes, self._scores = np.zeros(model.n_clusters_), np.zeros(2)
        self._has_score = hasattr(model, "predict_proba") and model._mixture is not None

    def add(self, table: MixedTable, weight: Floats | None = None) -> Labels:
        """Count further rows, which have the columns of the fit; return their clusters.

        Without weights, a row counts once.
        """
        model = self._model
        rows, penalties = model._read_with_range(table)
        warn_of_other_ranges(model._fitted.levels, table)
        clusters = model._fitted_clusters()
        labels = clusters.cheapest(rows, model._threads_of(len(rows)))
        self._sizes += np.bincount(labels, weight, minlength=len(self._sizes))
        if weight is None:
            each: Floats = np.ones(len(labels))
        else:
            counted = np.flatnonzero(weight)
            rows, penalties, each = rows.take(counted), penalties[counted], weight[counted]
        self._weights += each.sum(), (each * each).sum()
        for d, start in enumerate(self._grid.level_start.tolist()):
            found = np.bincount(rows.codes[:, d], each)
            self._counts[start : start + len(found)] += found
        z = (rows.numeric.astype(np.float64) - self._grid.centre) * self._grid.scale
        seen = ~np.isnan(z)
        z, column = np.where(seen, z, 0.0), each[:, None]
        self._numbers += (column * seen).sum(axis=0), (column * z).sum(axis=0), (column * z * z).sum(axis=0)
        self.n_rows += len(rows)
        if self._has_score and len(rows):
            scores = densities_of(clusters, rows, penalties)
            self._scores += (each * scores).sum(), (each * scores * scores).sum()
        return labels

    def comparison(self, labels: Labels | None = None, notes: Sequence[str] = ()) -> Comparison:
        """The rows that were counted, compared with those of the fit."""
        model, sizes, n = self._model, self._sizes * self._unit, self.weight or 1.0
        # a cluster without rows counts as one, as in the costs of rows
        then = np.where(model.cluster_sizes_ > 0, model.cluster_sizes_, 1.0)
        scores, lost = None, 0.0
        if self._has_score:
            mean, squares = (self._scores * self._unit / n).tolist()
            of_fit = model.log_likelihood_ / float(model.cluster_sizes_.sum())
            error = math.sqrt(max(squares - mean * mean, 0.0) / n)
            scores, lost = (of_fit, mean), max(of_fit - mean - _ERRORS * error, 0.0) if self.n_rows else 0.0
        drift, missing = self._of_columns()
        return Comparison(
            model.cluster_names_,
            then / then.sum(),
            sizes / max(sizes.sum(), 1e-300),
            sizes,
            list(model.schema_.columns),
            drift,
            missing,
            _divergence(sizes, then, n),
            scores,
            lost,
            self.n_rows,
            np.empty(0, np.int32) if labels is None else labels,
            list(notes),
            model._frame_library,
        )

    @property
    def _unit(self) -> float:
        """What the sums are multiplied by."""
        total, squares = self._weights.tolist()
        return total / squares if self._scaled and squares > 0.0 else 1.0

    @property
    def weight(self) -> float:
        """The sum of the weights of the rows, scaled if this was asked for."""
        return float(self._weights[0]) * self._unit

    def _of_columns(self) -> tuple[Floats, Floats]:
        """(D,) nats of the input columns, and (2, D) shares of their missing cells then and now; of a column
        with several features the largest.
        """
        fitted, grid, n = self._model._fitted, self._grid, self.weight or 1.0
        counts, numbers = self._counts * self._unit, self._numbers * self._unit
        whole = fitted.clusters.moments.total()
        drift, missing = np.zeros(fitted.schema.n_columns), np.zeros((2, fitted.schema.n_columns))
        ends = np.append(grid.level_start[1:], grid.n_levels).tolist()
        for d, (start, end) in enumerate(zip(grid.level_start.tolist(), ends, strict=True)):
            new, old = counts[start:end], whole.counts[0, start:end]
            j = fitted.encoding.source[grid.p + d]
            drift[j] = max(drift[j], _divergence(new, old, n))
            missing[:, j] = np.maximum(missing[:, j], (old[-1] / max(old.sum(), 1), new[-1] / n))
        if fitted.encoding.identity:  # else numbers are levels, and scores repeat these
            size, present = float(whole.sizes[0]), whole.present[0]
            means, squares = (each[0] for each in whole.means())
            for i, j in enumerate(fitted.encoding.source[: grid.p].tolist()):
                old = np.array([present[i], size - present[i]])
                new = np.array([numbers[0, i], max(n - numbers[0, i], 0.0)])
                missing[:, j] = old[1] / max(size, 1.0), new[1] / n
                moved = _normal_divergence(numbers[:, i], (old[0], means[i], squares[i]))
                drift[j] = max(_divergence(new, old, n), new[0] / n * moved)
        return drift, missing


def _divergence(new: Floats, old: Floats | Integers, n: float) -> float:
    """KL(new || old) of counts in n new rows, in nats, less what is due to chance."""
    total = float(new.sum())
    if not total:
        return 0.0
    share, other = new / total, (old + _PRIOR) / (old.sum() + _PRIOR * len(old))
    some = share > 0
    found = float((share[some] * np.log(share[some] / other[some])).sum())
    return _beyond_chance(found, int(np.count_nonzero((new > 0) | (old > 0))) - 1, n, float(old.sum()))


def _normal_divergence(new: Floats, fit: tuple[float, float, float]) -> float:
    """KL of the normal densities of new cells (their number, sum and sum of squares) and of those of the fit
    (number, mean and sum of squares around it), in nats, less what is due to chance.
    """
    (n, total, squares), (N, mean, of_fit) = new.tolist(), fit
    if min(n, N) < 2 or of_fit <= 0.0:
        return 0.0
    variance = of_fit / N
    own = max(squares / n - (total / n) ** 2, 0.0) / variance
    own = (n * own + 1.0) / (n + 1.0)  # one row of the variance of the fit, as in the costs of rows
    shift = (total / n - mean) ** 2 / variance
    return _beyond_chance(0.5 * (own + shift - 1.0 - math.log(own)), 2, n, N)


def _beyond_chance(found: float, n_parameters: int, n: float, N: float) -> float:
    return max(found - 0.5 * max(n_parameters, 0) * (1.0 / n + 1.0 / max(N, 1.0)), 0.0)
