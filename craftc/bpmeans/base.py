"""The base of the feature models: parameters and input, fitted state, and methods of a fitted model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import (
    FitResult,
    all_or_nothing,
    column_names,
    finite_result,
    output_frame,
    set_convergence,
    warn_not_converged,
    warn_of_exact_choice,
)
from craftc._common.labels import chunks
from craftc._common.messages import array_of, warn_user
from craftc._common.random import seed_of
from craftc._common.ranges import warn_of_unscaled_columns
from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.typing import Array, Bits, Floats, OutputFrame, RandomStateInput
from craftc._common.validation import Choice, Constraint, Flag, Number, check_choice, check_parameters
from craftc._kernels import bpmeans as bpmeans_kernel
from craftc.bpmeans.restarts import WORK, FeatureConfig, FeatureData, FeatureFit, choose, run_for, unpack
from craftc.describe.words import LEADING, number
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.table.estimator_input import DenseInput
from craftc.table.numbers import read_numbers

_FAR = 1e-12  # of the sum of squares around the mean to that around 0, where sums lose the spread
_ROUNDING = 1e-24  # of a sum of squares of residuals that are rounding errors, to that of the table

# features up to which all combinations of a row are compared
EXACT = {"auto": 10, "exact": bpmeans_kernel.EXACT, "sweep": 0}
# number of features: the memberships of a row are the bits of a word
COUNT = Number(least=1, most=bpmeans_kernel.MOST, whole=True, optional=True)


class FeatureModel(DenseInput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What BPMeans and KFeatures share: rows as sums of features, and the methods of a fitted model."""

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "assignment": Choice(("auto", "sweep", "exact")),
        "base": Choice(("mean", "none", "mixed")),
        "exchanges": Flag(),
        "max_iter": Number(least=1, most=1_000_000, whole=True),
        "n_trials": Number(least=1, most=bpmeans_kernel.TRIALS, whole=True, optional=True),
    }
    _of_fit = ("init", "random_state", "assignments_", "objective_path_")

    _limit: ClassVar[str]  # name of the parameter that limits the number of features
    _inits: ClassVar[tuple[str, ...]]  # choices of `init`
    _frame_library: str | None
    assignment: str
    base: str
    init: str | ArrayLike
    n_init: int
    exchanges: bool
    max_iter: int
    random_state: RandomStateInput
    n_threads: int | None
    verbose: int
    n_trials: int | None

    features_: Floats
    assignments_: Bits
    n_features_: int
    objective_: float
    objective_path_: Floats
    inertia_: float
    penalty_interval_: tuple[float, float]
    n_iter_: int
    converged_: bool

    # ---- fitting ----

    @all_or_nothing
    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Find the features.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers
            float32 stays float32.
        y : ignored

        Returns
        -------
        BPMeans or KFeatures
            Itself.

        Raises
        ------
        ValueError
            A parameter is not allowed, or X has missing or infinite values.
        """
        self._check_parameters()
        table = self._read_rows(X, reset=True)
        given = self._given_memberships(len(table))
        data = FeatureData(table, effective_n_threads(self.n_threads), column_names(self))
        warn_of_unscaled_columns(self, table)
        if 0.0 < data.points.scatter < _FAR * data.scatter:
            warn_user(
                f"The columns lie {math.sqrt(data.scatter / data.points.scatter):.2g} times their spread "
                f"away from 0, too far for the precision of sums: {type(self).__name__} may find no feature "
                "but this offset. Subtract it, for example the mean of every column."
            )
        self._search(data, given)
        return self

    def _search(self, data: FeatureData, given: Bits | None) -> None:
        """Set the fitted attributes; `given` are the memberships (n, K) passed as `init`."""
        raise NotImplementedError

    def _warn_of_exact_choice(self, data: FeatureData, remedy: str) -> None:
        """Warn where the features that were chosen leave no residuals."""
        if self.n_features_ > 1 and self.inertia_ <= _ROUNDING * data.scatter:
            warn_of_exact_choice(self, f"{self.n_features_} features", remedy)

    def _check_parameters(self) -> None:
        """Raise unless the parameters can be used."""
        check_parameters(self)
        value = getattr(self, self._limit)
        if self.assignment == "exact" and value is not None and value > bpmeans_kernel.EXACT:
            raise ValueError(
                "assignment='exact' compares all 2^K combinations of a row and allows at most "
                f"{bpmeans_kernel.EXACT} features, got {self._limit}={value}; use assignment='sweep' or "
                "'auto', or fewer features."
            )

    def _config(
        self,
        penalty: float,
        n_features: int,
        cap: int,
        exact: int | None = None,
        *,
        collapsed: bool = False,
        reseed: bool = False,
        shuffle: bool = False,
    ) -> FeatureConfig:
        def callback(line: str) -> None:
            if self.verbose:
                print(line)

        return FeatureConfig(
            penalty=penalty,
            n_features=n_features,
            cap=cap,
            exact=EXACT[self.assignment] if exact is None else exact,
            base=self.base,
            n_trials=int(self.n_trials or (0 if self.exchanges else 1)),
            max_iter=int(self.max_iter),
            n_init=int(self.n_init),
            seed=seed_of(self.random_state),
            exchanges=bool(self.exchanges),
            callback=callback,
            collapsed=collapsed,
            reseed=reseed,
            shuffle=shuffle,
            work=WORK if penalty > 0.0 else math.inf,
        )

    def _given_memberships(self, n: int) -> Bits | None:
        """Z given as `init`, (n, K)."""
        if isinstance(self.init, str):
            check_choice("init", self.init, self._inits, "or memberships (n, K) of 0 and 1")
            return None
        Z = array_of("init", self.init, "memberships (n, K) of 0 and 1")
        most = bpmeans_kernel.MOST
        if Z.ndim != 2 or Z.shape[0] != n or not 1 <= Z.shape[1] <= most:
            raise ValueError(
                f"init must be memberships of shape ({n}, K), K from 1 to {most}, of 0 and 1, got shape "
                f"{Z.shape}."
            )
        if Z.dtype.kind not in "biuf" or not np.isin(Z, (0, 1)).all():
            raise ValueError(
                f"init must be memberships of 0 and 1 (or False and True), got {Z.dtype} with other values."
            )
        return Z.astype(bool)

    def _set_state(
        self,
        data: FeatureData,
        config: FeatureConfig,
        fit: FeatureFit | None,
        interval: tuple[float, float] | None,
    ) -> None:
        """The fitted attributes: memberships, their least squares features, and J summed row by row."""
        n, D = data.X.shape
        masks, K = np.zeros(n, np.uint64), 0
        features = np.zeros((0, D))
        removal_costs = np.empty(0)
        if fit is not None and fit.n_features:
            run = run_for(data, config, threads_for(data.n_threads, data.X.size), gram=False)
            run.start(fit.masks, fit.n_features)
            masks, K = run.masks.copy(), run.n_features
            features, removal_costs = run.features.copy(), run.removal_costs()
        residuals = data.left_over(features, masks)
        self.features_, self.assignments_, self.n_features_ = features, unpack(masks, K), K
        self.inertia_ = float(np.add.reduce(residuals))
        estimated = float(residuals.max()), float(removal_costs.min(initial=np.inf))
        self.penalty_interval_ = interval or estimated
        objective = self.inertia_ + K * config.penalty
        set_convergence(self, fit or FitResult(objective, [objective], 0, True))
        self.objective_ = objective
        if not self.converged_:
            warn_not_converged(self, int(self.max_iter), "sweeps", "raise max_iter")

    # ---- rows ----

    @property
    def _n_features_out(self) -> int:
        return self.n_features_

    @rowwise(feature_names_out, "bool")
    def predict(self, X: ArrayLike) -> Bits:
        """The memberships of every row in the fitted features: those whose sum is nearest to the row.

        Up to ten features all combinations are compared (sixteen with ``assignment="exact"``). With more
        features, single memberships are switched, starting from none, until no switch lowers the error. The
        fit may have stopped in a local optimum of a row, so that `assignments_` can differ from the
        prediction for the training rows.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K) of bool
        """
        check_is_fitted(self)
        return self._memberships(self._read_rows(X, reset=False))

    def _memberships(self, rows: Array) -> Bits:
        most_exact = max(EXACT[self.assignment], EXACT["auto"])
        masks = choose(rows, self.features_, most_exact, effective_n_threads(self.n_threads))
        return unpack(masks, self.n_features_)

    @rowwise(feature_names_out, "float64")
    def transform(self, X: ArrayLike) -> Floats:
        """`predict` as numbers 0 and 1.

        Parameters
        ----------
        X : array, data frame (n, D) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K) of float64
        """
        return self.predict(X).astype(np.float64)

    @finite_result
    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Sums of the features, Z A.

        Parameters
        ----------
        X : array (n, K)
            Memberships, as `transform` returns them; other numbers are weights of the features.

        Returns
        -------
        ndarray (n, D) of float64
        """
        check_is_fitted(self)
        Z = read_numbers(self, X, reset=None, ensure_min_features=0)
        if Z.shape[1] != self.n_features_:
            raise ValueError(
                f"inverse_transform needs one column per feature, {self.n_features_}, got {Z.shape[1]}."
            )
        return np.asarray(Z @ self.features_)

    @finite_result
    def score(self, X: ArrayLike, y: object = None) -> float:
        """Minus the summed squared errors of the rows and the sums of their features; higher is better.

        Parameters
        ----------
        X : array or data frame (n, D)
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        rows = self._read_rows(X, reset=False)
        return -float(((rows - self._memberships(rows) @ self.features_) ** 2).sum())

    def reconstruct(self, X: ArrayLike) -> Floats:
        """Every row as the sum of its features: ``inverse_transform(transform(X))``.

        Parameters
        ----------
        X : array or data frame (n, D)

        Returns
        -------
        ndarray (n, D) of float64
        """
        return self.inverse_transform(self.transform(X))

    def summary(self) -> OutputFrame:
        """One line per feature.

        Returns
        -------
        pandas.DataFrame, or polars.DataFrame where `fit` received one
            "rows" and "share": the rows that have the feature, and their share of all rows. "norm": length of
            the feature. "alone": share of its rows that have no other feature. "overlaps with": the feature
            of largest overlap, and "overlap": the rows of both features divided by the rows of either.
            "largest values": the columns in which the feature is largest, with its values there.
        """
        check_is_fitted(self)
        columns = column_names(self)
        n, K = self.assignments_.shape
        together, alone = np.zeros((K, K)), np.zeros(K)
        for rows in chunks(n):
            Z = self.assignments_[rows].astype(np.float64)
            together += Z.T @ Z
            alone += Z[Z.sum(axis=1) == 1].sum(axis=0)
        size = np.diag(together).copy()
        either = size[:, None] + size - together
        overlap = np.divide(together, either, out=np.zeros((K, K)), where=either > 0)
        np.fill_diagonal(overlap, -1.0)
        nearest = overlap.argmax(axis=1) if K > 1 else np.full(K, -1)
        table = {
            "feature": np.arange(K),
            "rows": size.astype(int),
            "share": size / n,
            "norm": np.sqrt((self.features_**2).sum(axis=1)),
            "alone": alone / np.maximum(size, 1),
            "overlaps with": nearest,
            "overlap": overlap[np.arange(K), nearest] if K > 1 else np.zeros(K),
            "largest values": [_largest_values(feature, columns) for feature in self.features_],
        }
        return output_frame(table, self._frame_library)


def _largest_values(feature: Floats, columns: Sequence[object]) -> str:
    """The leading columns of a feature as ``"age 41.2, chol -3.01"``, from a hundredth of the largest up."""
    size = np.abs(feature)
    leading = np.argsort(-size, kind="stable")[:LEADING]
    return ", ".join(f"{columns[d]} {number(feature[d])}" for d in leading if size[d] > 0.01 * size.max())
