"""What the feature models have in common: parameters and input, the fitted state, and what can be asked of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from craftc._common.optional import need_pandas
from craftc._common.random import seed_of
from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.typing import Bits, Floats
from craftc._common.validation import check_choice, check_number
from craftc._kernels import bpmeans as _kernel
from craftc.bpmeans import restarts as search
from craftc.bpmeans.restarts import Outcome, Plan, Rows

ASSIGNMENTS = ("auto", "sweep", "exact")
BASES = ("mean", "none", "mixed")
EXACT = {"auto": 10, "exact": _kernel.EXACT, "sweep": 0}  # features up to which all combinations of a row are compared


class FeatureModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What BPMeans and KFeatures share: rows as sums of features, and what can be asked of fitted ones."""

    feature_penalty: Any
    assignment: str
    base: str
    init: Any
    n_init: int
    max_iter: int
    random_state: Any
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

    def _plan(self, penalty: float, n_features: int, cap: int, exact: int | None = None, **options: Any) -> Plan:
        def told(line: str) -> None:
            if self.verbose:
                print(line)

        return Plan(
            penalty=penalty, n_features=n_features, cap=cap, exact=EXACT[self.assignment] if exact is None else exact, base=self.base,
            n_trials=int(self.n_trials or 0), max_iter=int(self.max_iter), n_init=int(self.n_init), seed=seed_of(self.random_state),
            told=told, **options,
        )  # fmt: skip

    def _given_memberships(self, n: int, *inits: str) -> Bits | None:
        """Z given as `init`, (n, K)."""
        if isinstance(self.init, str):
            check_choice("init", self.init, inits, "or memberships (n, K) of 0 and 1")
            return None
        Z = np.asarray(self.init)
        if Z.ndim != 2 or Z.shape[0] != n or not 1 <= Z.shape[1] <= _kernel.MOST:
            raise ValueError(f"init must be memberships of shape ({n}, K), K from 1 to {_kernel.MOST}, of 0 and 1, got shape {Z.shape}.")
        if Z.dtype.kind not in "biuf" or not np.isin(Z, (0, 1)).all():
            raise ValueError(f"init must be memberships of 0 and 1 (or False and True), got {Z.dtype} with other values.")
        return Z.astype(bool)

    def _set_state(self, rows: Rows, plan: Plan, outcome: Outcome | None, interval: tuple[float, float] | None) -> None:
        """The fitted attributes: memberships, their least squares features, and J worked out row by row."""
        n, D = rows.X.shape
        masks, K = np.zeros(n, np.uint64), 0
        features = np.zeros((0, D))
        spare = np.empty(0)
        if outcome is not None and outcome.n_features:
            run = search.run_for(rows, plan, threads_for(rows.n_threads, rows.X.size), gram=False)
            run.start(outcome.masks, outcome.n_features)
            masks, K, features, spare = run.masks.copy(), run.n_features, run.features.copy(), run.removal_costs()
        left = rows.left_over(features, masks)
        self.features_, self.assignments_, self.n_features_ = features, search.unpack(masks, K), K
        self.inertia_ = float(np.add.reduce(left))
        self.objective_ = self.inertia_ + K * plan.penalty
        self.penalty_interval_ = interval or (float(left.max()), float(spare.min(initial=np.inf)))
        self.objective_path_ = np.array([self.objective_]) if outcome is None else outcome.path
        self.n_iter_ = 0 if outcome is None else outcome.n_iter
        self.converged_ = True if outcome is None else outcome.converged
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} stopped after {int(self.max_iter)} sweeps while rows still changed; raise max_iter for the last of "
                "the way.",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ---- rows ----

    @property
    def _n_features_out(self) -> int:
        return self.n_features_

    def predict(self, X: ArrayLike) -> Bits:
        """The features of every row, given the fitted ones: those whose sum comes nearest.

        Up to ten features all combinations are compared (sixteen with ``assignment="exact"``); beyond, bit after bit is flipped from
        none until nothing wins. There is no price on memberships, so that a fit that stopped in a local optimum of a row may have
        other `assignments_`.

        Parameters
        ----------
        X : array or data frame (n, D)

        Returns
        -------
        ndarray (n, K) of bool
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        most_exact = max(EXACT[self.assignment], EXACT["auto"])
        masks = search.choose(table, self.features_, most_exact, effective_n_threads(self.n_threads))
        return search.unpack(masks, self.n_features_)

    def transform(self, X: ArrayLike) -> Floats:
        """`predict` as numbers 0 and 1.

        Parameters
        ----------
        X : array or data frame (n, D)

        Returns
        -------
        ndarray (n, K) of float64
        """
        return self.predict(X).astype(np.float64)

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Sums of features, Z A.

        Parameters
        ----------
        X : array (n, K)
            Memberships, as `transform` returns them; other numbers weigh the features.

        Returns
        -------
        ndarray (n, D) of float64
        """
        check_is_fitted(self)
        Z = np.asarray(check_array(X, dtype=np.float64, ensure_min_features=0))
        if Z.shape[1] != self.n_features_:
            raise ValueError(f"inverse_transform takes one column per feature, {self.n_features_}, got {Z.shape[1]}.")
        return np.asarray(Z @ self.features_)

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

    def summary(self) -> Any:
        """One line per feature, for reading.

        Returns
        -------
        pandas.DataFrame
            rows and share of the rows that have the feature; norm, its length; alone, the share of its rows that have nothing else;
            "overlaps with", the feature most of its rows are shared with, and "overlap", rows of both by rows of either.
        """
        check_is_fitted(self)
        pd = need_pandas()
        Z, K = self.assignments_.astype(np.float64), self.n_features_
        together, size = Z.T @ Z, Z.sum(axis=0)
        either = size[:, None] + size - together
        overlap = np.divide(together, either, out=np.zeros((K, K)), where=either > 0)
        np.fill_diagonal(overlap, -1.0)
        nearest = overlap.argmax(axis=1) if K > 1 else np.full(K, -1)
        alone = (Z * (Z.sum(axis=1) == 1)[:, None]).sum(axis=0)
        return pd.DataFrame(
            {
                "feature": np.arange(K),
                "rows": size.astype(int),
                "share": size / len(Z),
                "norm": np.sqrt((self.features_**2).sum(axis=1)),
                "alone": alone / np.maximum(size, 1),
                "overlaps with": nearest,
                "overlap": overlap[np.arange(K), nearest] if K > 1 else np.zeros(K),
            }
        )

    # ---- input and parameters ----

    def _read(self, X: ArrayLike, reset: bool) -> NDArray[Any]:
        """The rows as a contiguous array, float32 where they are."""
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=reset))

    def _check_common(self) -> None:
        check_choice("assignment", self.assignment, ASSIGNMENTS)
        check_choice("base", self.base, BASES)
        check_number("n_init", self.n_init, least=1, whole=True)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("verbose", self.verbose, least=0, whole=True)
        if self.n_trials is not None:
            check_number("n_trials", self.n_trials, least=1, most=_kernel.TRIALS, whole=True)

    def _check_count(self, name: str, value: Any) -> None:
        """Raise unless a number of features can be held, and compared exactly if that is asked for."""
        check_number(name, value, least=1, whole=True)
        if value > _kernel.MOST:
            raise ValueError(f"{name} must be at most {_kernel.MOST} (the features of a row are the bits of one word), got {value}.")
        if self.assignment == "exact" and value > _kernel.EXACT:
            raise ValueError(
                f"assignment='exact' compares all 2^K combinations of a row and takes at most {_kernel.EXACT} features, got "
                f"{name}={value}: use assignment='sweep' or 'auto', or ask for fewer."
            )
