"""A fitted CRAFT and another table: what has changed in the clusters since the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import output_frame
from craftc._common.labels import chunks
from craftc._common.typing import Floats, FrameInput, Labels, OutputFrame, PathInput
from craftc._common.validation import check_weight
from craftc._kernels.craft_shared import log_ratios
from craftc.craft.base import CraftBase, is_a_density
from craftc.craft.clusters import Clusters, distributions_of
from craftc.describe.words import clean, percent, plural
from craftc.reading.read_table import as_in_fit
from craftc.table import MixedTable


@dataclass(frozen=True, repr=False)
class Comparison:
    """How a table differs from the one on which a model was fitted; the result of `compare`.

    Attributes
    ----------
    names : list of K str
        Of the clusters.
    then, now : ndarray (K,) of float64
        Shares of the rows (in the fit: of their weight) in every cluster.
    columns : list of D str
        Input columns.
    feature_drift : ndarray (D,) of float64
        Nats per row by which the cells of a column differ, inside the clusters, from the distributions of the
        model, beyond what chance gives; and by which the share of its missing cells has changed, among them
        levels that the fit has not seen.
    labels : ndarray (n,) of int32
        Clusters of the new rows.
    notes : list of str
        How the cells of a file, or of a frame with texts, were read.
    """

    names: list[str]
    then: Floats
    now: Floats
    columns: Sequence[object]
    feature_drift: Floats
    labels: Labels
    notes: list[str]
    _library: str | None = None

    def __repr__(self) -> str:
        k, d = int(np.abs(self.now - self.then).argmax()), int(self.feature_drift.argmax())
        share = f"cluster {k} ({self.names[k]}) {percent(self.then[k])} then, {percent(self.now[k])} now"
        most = f", most in {clean(self.columns[d])}" if self.feature_drift[d] > 0.0 else ""
        drift = f"drift {self.drift:.3g} nats per row{most}"
        return f"Comparison({plural(len(self.labels), 'row')}; {drift}; {share})"

    @property
    def cluster_drift(self) -> float:
        """Nats per row by which the sizes of the clusters have changed: sum_k now_k log(now_k / then_k)."""
        some = self.now > 0
        return float((self.now[some] * np.log(self.now[some] / self.then[some])).sum())

    @property
    def drift(self) -> float:
        """Nats per row: `cluster_drift` and the sum of `feature_drift`."""
        return self.cluster_drift + float(self.feature_drift.sum())

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
        """Data frame of the columns, largest drift first: feature, drift in nats per row."""
        order = np.argsort(-self.feature_drift, kind="stable")
        return output_frame(
            {"feature": [self.columns[d] for d in order], "drift": self.feature_drift[order]}, self._library
        )


def compare(
    model: CraftBase, table: FrameInput | PathInput, *, sample_weight: ArrayLike | None = None
) -> Comparison:
    """Compare another table with the one on which a CRAFT was fitted: cluster sizes then and now, and columns
    that have changed.

    Parameters
    ----------
    model : CRAFT or PaperCRAFT
        Fitted; not one of the paper's models.
    table : data frame, array (n, D), MixedTable or path
        New rows, with the columns of the model: customers of another quarter, say. A file, and a frame with
        texts or dates, are read as the table of the fit was, as by ``read_table(table, like=model)``.
    sample_weight : array (n,), optional
        Weights of the new rows in the shares of the clusters; the drift of the columns counts every row of
        weight > 0 once.

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
    rows = model._read_new(cast(FrameInput, read))
    labels = model._fitted.clusters.cheapest(rows, model._threads_of(len(rows)))
    # a cluster without rows counts as one, as in the costs of rows
    sizes = np.where(model.cluster_sizes_ > 0, model.cluster_sizes_, 1.0)
    weight = check_weight(sample_weight, len(rows))
    counted = slice(None) if weight is None else np.flatnonzero(weight)
    parts = _drift(model._fitted.clusters, rows if weight is None else rows.take(counted), labels[counted])
    drift = np.zeros(model.n_features_in_)
    np.add.at(drift, model._fitted.encoding.source, parts)
    now = np.bincount(labels, weight, minlength=len(sizes))
    now = now / now.sum()
    names = list(model.schema_.columns)
    return Comparison(
        model.cluster_names_, sizes / sizes.sum(), now, names, drift, labels, notes, model._frame_library
    )


def _drift(clusters: Clusters, table: MixedTable, labels: NDArray[np.int32]) -> Floats:
    """(D,) nats per row by which new cells differ from the distributions of their clusters; constant columns
    of the fit count nothing.

    Twice the log likelihood ratio of a distribution that is fitted to the new cells exceeds that of the model
    by one per parameter, by chance; this is subtracted. A tilted column is fitted by another tilt.
    """
    mean, variance, probability = distributions_of(clusters)
    grid, background, K = clusters.moments.grid, clusters.background, len(clusters.mask)
    count, total, squares = np.zeros((3, K, grid.p))
    levels = np.zeros((K, grid.n_levels))
    for rows in chunks(len(table)):
        z = (table.numeric[rows].astype(np.float64) - background.centre[: grid.p]) * background.scale[
            : grid.p
        ]
        for k in np.unique(labels[rows]):
            of_k = labels[rows] == k
            own = z[of_k] - mean[k]
            seen = ~np.isnan(own)
            own = np.where(seen, own, 0.0)
            count[k] += seen.sum(axis=0)
            total[k] += own.sum(axis=0)
            squares[k] += (own**2).sum(axis=0)
            for start, codes in zip(grid.level_start, table.codes[rows][of_k].T, strict=True):
                at = np.bincount(codes)
                levels[k, start : start + len(at)] += at
    out = np.zeros(grid.p + grid.q)
    n = np.maximum(count, 1.0)
    spread = (
        (squares - total**2 / n + variance) / (count + 1.0) / variance
    )  # one row of the model's variance, as in the fit
    ratio = 0.5 * count * (spread + (total / n) ** 2 / variance - 1.0 - np.log(spread))
    out[: grid.p] = (ratio - np.where(count > 0, 1.0, 0.0)).sum(axis=0)
    ends, tilts = np.append(grid.level_start, grid.n_levels), background.tilts
    ratios = np.zeros(levels.shape)
    log_ratios(levels.astype(np.int64), 1.0, tilts, np.empty(K), ratios)
    refitted = background.frequency * np.exp(ratios)
    for c in range(grid.q):
        own = slice(ends[c], ends[c + 1] - 1)
        counts, expected = levels[:, own], probability[:, own]
        size = counts.sum(axis=1, keepdims=True)
        known = (counts > 0) & (expected > 0)
        cells = size * refitted[:, own] if tilts.tilted[c] else counts
        share = np.divide(cells, size * expected, out=np.ones_like(counts), where=known)
        by_chance = 0.5 * background.n_parameters[grid.p + c] * np.count_nonzero(size)
        out[grid.p + c] = (counts * np.log(share)).sum() - by_chance
    present = np.concatenate([count.sum(axis=0), [levels[:, a : b - 1].sum() for a, b in pairwise(ends)]])
    out = np.where(background.usable > 0, np.maximum(out, 0.0), 0.0)
    absence = _drift_of_presence(clusters, present, len(table))
    absence[: grid.p] *= background.usable[: grid.p]  # scores repeat the levels
    return np.asarray((out + absence) / len(table))


def _drift_of_presence(clusters: Clusters, present: Floats, n: int) -> Floats:
    """(D,) nats by which the numbers of cells with a value differ from the share of such cells in the fit,
    beyond what chance gives.
    """
    total, background = clusters.moments.total(), clusters.background
    size = total.sizes[0]
    then = np.concatenate([total.present[0], background.level_present(total.counts)[0]])
    share = (then + 0.5) / (size + 1.0)
    out = np.full(len(share), -0.5)
    for cells, expected in ((present, n * share), (n - present, n * (1.0 - share))):
        out += cells * np.log(np.where(cells > 0, cells, 1.0) / np.where(cells > 0, expected, 1.0))
    return np.asarray(np.maximum(out, 0.0))
