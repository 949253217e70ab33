"""New rows under a fitted DPMeans: their clusters, and distances to the centres."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import finite_result
from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.typing import Array, Floats, Labels, TableInput, WeightInput
from craftc._common.validation import check_weight
from craftc._kernels import dpmeans as _kernel
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.dpmeans import gaussian
from craftc.dpmeans.rows.bounded import nearest

_FAR = 520  # binary exponent of the unit of distances whose squares overflow


class DPMeansPrediction(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of :class:`craftc.DPMeans`."""

    n_clusters_: int
    n_threads: int | None
    cluster_centers_: Floats
    _shape: tuple[Floats, Floats] | None
    _shapes: gaussian.ClusterShapes
    _gaussian: gaussian.Gaussian
    _limit: float

    def _read_rows(self, X: object, reset: bool) -> Array:
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    @rowwise("cluster", "int32")
    def predict(self, X: TableInput, open_cluster: bool = False) -> Labels:
        """The nearest cluster of every row.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy
        open_cluster : bool, default=False
            Label rows further than lambda from every centre, which would open a cluster, -1 (not for a
            covariance per cluster).

        Returns
        -------
        ndarray (n,) of int32
        """
        check_is_fitted(self)
        table = self._read_rows(X, reset=False)
        if hasattr(self, "covariances_"):
            if open_cluster:
                raise ValueError(
                    "open_cluster=True is not defined for full covariances; pass open_cluster=False."
                )
            labels: Labels = (
                gaussian.costs(table, self._shapes, self._gaussian).argmin(axis=1).astype(np.int32)
            )
            return labels
        centers = whitened(self.cluster_centers_, self._shape)
        labels, squared = nearest(whitened(table, self._shape), centers, effective_n_threads(self.n_threads))
        if open_cluster:
            labels[squared > self._limit] = -1
        return labels

    @rowwise(feature_names_out, "float64")
    @finite_result
    def transform(self, X: TableInput) -> Floats:
        """Distances to the centres (with covariances: Mahalanobis distances).

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K) of float64
        """
        check_is_fitted(self)
        table = self._read_rows(X, reset=False)
        out = np.empty((len(table), self.n_clusters_))
        if hasattr(self, "covariances_"):
            for k in range(self.n_clusters_):
                out[:, k] = gaussian.mahalanobis(table, self._shapes, k)
        else:
            threads = threads_for(effective_n_threads(self.n_threads), table.size * self.n_clusters_)
            rows, centers = whitened(table, self._shape), whitened(self.cluster_centers_, self._shape)
            _kernel.distances(rows, centers, out, threads)
            far = np.flatnonzero(np.isinf(out).any(axis=1))
            if len(far):  # squares overflow: in units in which they do not
                scaled = np.empty((len(far), self.n_clusters_))
                _kernel.distances(
                    np.ldexp(rows[far].astype(np.float64), -_FAR), np.ldexp(centers, -_FAR), scaled, threads
                )
                np.sqrt(out, out=out)
                out[far] = np.ldexp(np.sqrt(scaled), _FAR)
                return out
        return np.asarray(np.sqrt(out, out=out))

    @finite_result
    def score(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> float:
        """Minus the summed squared distances of the rows to their nearest centres (with covariances:
        Mahalanobis distances); higher is better.

        Parameters
        ----------
        X : array or data frame (n, D)
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        float
        """
        distances = self.transform(X).min(axis=1)
        weight = check_weight(sample_weight, len(distances))
        return -float((distances**2).sum() if weight is None else (distances**2 * weight).sum())


def whitened(rows: Array, shape: tuple[Floats, Floats] | None) -> Array:
    """Rows in coordinates where squared distances are Mahalanobis distances."""
    return rows if shape is None else gaussian.multiplied(rows, shape[1])
