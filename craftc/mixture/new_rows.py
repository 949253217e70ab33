"""New rows under a fitted mixture: their clusters, responsibilities and densities."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from craftc._common.threads import effective_n_threads
from craftc._common.typing import Array, Floats, Labels, TableInput, WeightInput
from craftc._common.validation import check_weight
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.mixture.posterior import Posterior


class MixturePrediction(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of :class:`craftc.FeatureSelectionMixture`."""

    n_clusters_: int
    n_threads: int | None
    _posterior: Posterior

    def _new_rows(self, X: TableInput) -> Array:
        raise NotImplementedError

    @rowwise("cluster", "int32")
    def predict(self, X: TableInput) -> Labels:
        """The most probable cluster of every row.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,) of int32
        """
        rows = self._new_rows(X)
        return self._posterior.labels(rows, effective_n_threads(self.n_threads))

    @rowwise(lambda model: range(model.n_clusters_), "float64")
    def predict_proba(self, X: TableInput) -> Floats:
        """The responsibilities of the clusters for every row, under the fitted q.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K) of float64
            Rows sum to 1.
        """
        rows = self._new_rows(X)
        return self._posterior.proba(rows, effective_n_threads(self.n_threads))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)

    @rowwise(feature_names_out, "float64")
    def transform(self, X: TableInput) -> Floats:
        """`predict_proba`, as a step of a pipeline.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K) of float64
        """
        return self.predict_proba(X)

    @rowwise("score", "float64")
    def score_samples(self, X: TableInput) -> Floats:
        """The log predictive density of every row (Student's t, negative binomial, Bernoulli), in the units
        of the table.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy
            Missing cells and columns without variance in `fit` are left out. Counts: the total of a row is
            the exposure that multiplies the rates. It is not conditioned on, so that the densities of all
            rows of one total sum to less than 1.

        Returns
        -------
        ndarray (n,) of float64
        """
        rows = self._new_rows(X)
        return self._posterior.log_density(rows)

    def score(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> float:
        """The mean of `score_samples`.

        Parameters
        ----------
        X : array or data frame (n, D)
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        float
        """
        densities = self.score_samples(X)
        return float(np.average(densities, weights=check_weight(sample_weight, len(densities))))
