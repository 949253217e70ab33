"""CRAFT: clusters of a mixed table, each with the few features that make it one."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from craftc import _craft_search as search
from craftc._craft_model import Background, Clusters, Rules
from craftc._kernels import craft as _kernel
from craftc._moments import Moments, integer_grid, integer_weights
from craftc._parallel import effective_n_threads
from craftc._random import seed_of
from craftc._summary import cluster_summary
from craftc._validation import check_choice, check_number, check_weight, read_table
from craftc.table import MixedTable, Schema

_GUESS = 8  # clusters the heuristic is told to expect when nobody says


class CRAFT(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Clusters of a table of numbers and categories, with the features that make each cluster one.

    Every cluster describes its rows by a few features of its own; all other cells stand under the whole table's
    distribution. A feature's worth is what it saves in nats, for numbers and categories alike, so nothing needs to be scaled or
    encoded, and missing cells cost nothing.

    Parameters
    ----------
    n_clusters : int, optional
        How many clusters at most. With ``cluster_price="farthest-first"`` it is the guess that heuristic needs, not a cap.
        None: as many as the price admits.
    cluster_price : {"auto", "farthest-first"} or float, default="auto"
        What a cluster must save to exist, in nats (Lambda). "auto": 0 when `n_clusters` is given (the number is then the only
        limit), else the farthest-first heuristic told to expect 8.
    price_factor : float, default=1.0
        Multiplies the price found by "auto" or "farthest-first"; 2 to 4 gives fewer clusters.
    selection : {"fixed", "free", "threshold", "global"}, default="fixed"
        How each cluster chooses features. "fixed": the share `feature_fraction` of the numeric and of the categorical columns
        with the largest gains. "free": every feature whose gain exceeds F_Delta. "threshold": the paper's approximate
        budget, see the two thresholds. "global": one choice for all clusters, by summed gain.
    feature_fraction : float in (0, 1], default=0.5
        Share m of features a cluster selects. 1 = no feature selection.
    feature_sharing : float in (0, m(1 - m)), optional
        Variance rho of the paper's prior on selection; sets F_Delta. None: max(m(1 - m) - 0.01, m(1 - m) / 2).
    categorical_threshold : float, default=0.95
        "threshold" selects a categorical feature that lost more than this share of its entropy in the cluster (eps_c).
    numeric_threshold : float, default=0.5
        "threshold" selects a numeric feature whose variance in the cluster is below this share of the table's (eps_v).
    model : {"likelihood", "paper", "paper-fixed"}, default="likelihood"
        "likelihood": the coherent objective, which never rises and is reached in finitely many passes. "paper": the
        algorithm as printed; "paper-fixed": the same with all standard deviations 1, in the columns' own units.
    numeric : {"raw"}, default="raw"
        Numeric columns are taken as they are.
    categorical : "auto", list of names or positions, or boolean mask, default="auto"
        Which columns are categories. "auto": strings, categories, enums and booleans of a data frame; none of a plain array.
    missing : {"ignore", "category", "error"}, default="ignore"
        Missing cells: cost and count nothing; become a level of their own (categorical columns); or are refused.
    unknown : {"ignore", "error"}, default="ignore"
        A level never seen in fit: costs like the background, or is refused.
    max_clusters : int, default=100
        No cluster is opened beyond this number.
    init : {"auto", "single", "random", "farthest"}, array (n,) of int, or list of such arrays, default="auto"
        Start partitions. "auto": alternately random and farthest-first (``model="paper"``: the paper's random row).
        Arrays are used as they are, one start each.
    n_init : int, default=8
        Starts; the lowest objective is kept (ties: the earlier start).
    max_iter : int, default=100
        Passes over the table at most, per start.
    random_state : int, RandomState or None, default=None
        Seed of the starts. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line per start; 2: a line per pass.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance.
    n_clusters_ : int
        Number of clusters found, K.
    objective_ : float
        The objective J of the partition, in nats, recomputed from exact sums.
    objective_path_ : ndarray of float64
        J of the start partition and after every pass of the start that was kept.
    n_iter_ : int
        Passes of that start.
    converged_ : bool
        Whether its last pass moved no row.
    cluster_price_ : float
        The price Lambda that was used, nats.
    cluster_sizes_ : ndarray (K,)
        Rows (with weights: their sum) per cluster.
    feature_mask_ : ndarray (K, D) of bool
        Features each cluster selected, in the order of the input columns.
    feature_gains_ : ndarray (K, D) of float64
        What each feature saves in each cluster, nats, selected or not.
    centers_, variances_ : ndarray (K, p) of float64
        Mean and smoothed variance of the numeric columns in their own units (columns: `numeric_features_in_`).
    level_probabilities_ : list of ndarray (K, T_d)
        Smoothed level probabilities of the categorical columns (`categorical_features_in_`, levels in `levels_`).
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and (for data frames) names of the input columns.

    References
    ----------
    .. [1] V. K. Garg, C. Rudin, T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS 2016,
       Algorithm 2 and equations (5)-(7).

    Examples
    --------
    >>> from craftc import CRAFT
    >>> from craftc.datasets import load_heart
    >>> model = CRAFT(n_clusters=2, random_state=0).fit(load_heart().data)
    >>> model.n_clusters_, model.labels_.shape
    (2, (270,))
    """

    #: Called as (start, n_starts, pass, clusters, objective) after every pass; not a parameter.
    _progress: Callable[[int, int, int, int, float], None] | None = None

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        cluster_price: str | float = "auto",
        price_factor: float = 1.0,
        selection: str = "fixed",
        feature_fraction: float = 0.5,
        feature_sharing: float | None = None,
        categorical_threshold: float = 0.95,
        numeric_threshold: float = 0.5,
        model: str = "likelihood",
        numeric: str = "raw",
        categorical: Any = "auto",
        missing: str = "ignore",
        unknown: str = "ignore",
        max_clusters: int = 100,
        init: Any = "auto",
        n_init: int = 8,
        max_iter: int = 100,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.cluster_price = cluster_price
        self.price_factor = price_factor
        self.selection = selection
        self.feature_fraction = feature_fraction
        self.feature_sharing = feature_sharing
        self.categorical_threshold = categorical_threshold
        self.numeric_threshold = numeric_threshold
        self.model = model
        self.numeric = numeric
        self.categorical = categorical
        self.missing = missing
        self.unknown = unknown
        self.max_clusters = max_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ---- fitting ----

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> CRAFT:
        """Find the clusters of a table.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
            pandas, polars or pyarrow frame (columns are read by their own types), numeric array, or a table built before.
        y : ignored
        sample_weight : array (n,), optional
            Weight >= 0 of every row; weight 2 is the row twice.

        Returns
        -------
        CRAFT
            Itself, fitted.

        Raises
        ------
        ValueError, TypeError
            A parameter, the table or the weights cannot be used; the sentence says why and what to do. Nothing is
            changed then.
        """
        rules = self._check_parameters()
        table = read_table(self, X, categorical=self.categorical, missing=self.missing)
        weight, unit = integer_weights(check_weight(sample_weight, len(table)))
        self._check_size(table)
        given = self._given_starts(len(table))

        grid = integer_grid(table, weight)
        everything = np.zeros(len(table), np.int32)
        n_threads = effective_n_threads(self.n_threads)
        total = Moments.of_partition(grid, unit, table, weight, everything, 1, n_threads)
        problem = search.Problem(
            table,
            weight,
            Background(total),
            rules,
            cap=self._cap(),
            max_iter=int(self.max_iter),
            seed=seed_of(self.random_state),
            n_threads=n_threads,
            unit_weight=np.minimum(weight * unit, 1.0) if len(weight) else None,
            on_pass=self._print_pass if self.verbose > 1 else None,
        )
        problem = self._priced(problem)
        best = self._search(problem, given)
        if not best.converged:
            warnings.warn(
                f"CRAFT stopped after {best.n_iter} passes while rows still moved; raise max_iter (now {self.max_iter}) or "
                "check that the model allows convergence (model='likelihood', selection other than 'threshold').",
                ConvergenceWarning,
                stacklevel=2,
            )
        order = search.first_appearance(best.labels, best.moments.n_clusters)
        search.renumber(best.labels, np.argsort(order).astype(np.int32))
        self._set_state(best.moments.select(order), problem.rules, table.schema)
        self.labels_ = best.labels
        self.objective_path_ = np.array(best.path)
        self.n_iter_, self.converged_ = best.n_iter, best.converged
        return self

    def _check_parameters(self) -> Rules:
        """Rules of the model from the parameters, each checked."""
        check_choice("selection", self.selection, ("fixed", "free", "threshold", "global"))
        check_choice("model", self.model, ("likelihood", "paper", "paper-fixed"))
        check_choice("numeric", self.numeric, ("raw",))
        check_choice("missing", self.missing, ("ignore", "category", "error"))
        check_choice("unknown", self.unknown, ("ignore", "error"))
        if isinstance(self.cluster_price, str):
            check_choice("cluster_price", self.cluster_price, ("auto", "farthest-first"), "or a number of nats >= 0")
            if self.cluster_price == "farthest-first" and self.n_clusters is None:
                raise ValueError("cluster_price='farthest-first' needs a guess of the number of clusters: give n_clusters.")
        else:
            check_number("cluster_price", self.cluster_price, least=0.0)
        check_number("price_factor", self.price_factor, above=0.0)
        m = check_number("feature_fraction", self.feature_fraction, above=0.0, most=1.0)
        if self.feature_sharing is not None:
            if m == 1.0:
                raise ValueError("feature_sharing has no meaning with feature_fraction=1; leave it None.")
            check_number("feature_sharing", self.feature_sharing, above=0.0, below=m * (1 - m), hint="m(1 - m)")
        check_number("categorical_threshold", self.categorical_threshold, least=0.0)
        check_number("numeric_threshold", self.numeric_threshold, least=0.0)
        for name in ("max_clusters", "n_init", "max_iter"):
            check_number(name, getattr(self, name), least=1, whole=True)
        if self.n_clusters is not None:
            check_number("n_clusters", self.n_clusters, least=1, whole=True)
        return Rules(
            self.model,
            self.selection,
            0.0,
            m,
            self.feature_sharing,
            float(self.categorical_threshold),
            float(self.numeric_threshold),
        )

    def _check_size(self, table: MixedTable) -> None:
        if self.n_clusters is not None and self.n_clusters > len(table):
            raise ValueError(f"n_clusters={self.n_clusters} is more than the {len(table)} rows of the table; ask for fewer clusters.")

    def _given_starts(self, n: int) -> list[search.Labels] | None:
        """Start partitions given as arrays, checked; None when `init` names a rule."""
        if isinstance(self.init, str):
            check_choice("init", self.init, ("auto", "single", "random", "farthest"), "or labels")
            return None
        many = isinstance(self.init, (list, tuple)) and len(self.init) > 0 and not isinstance(self.init[0], numbers.Number)
        starts = [_check_labels(labels, n) for labels in (self.init if many else [self.init])]
        cap = self._cap()
        for labels in starts:
            if labels.max() >= cap:
                raise ValueError(f"init has {labels.max() + 1} clusters but at most {cap} are allowed; raise n_clusters or max_clusters.")
        return starts

    def _cap(self) -> int:
        cap = int(self.max_clusters)
        if self.n_clusters is not None and self.cluster_price != "farthest-first":
            cap = min(cap, int(self.n_clusters))
        return cap

    def _priced(self, problem: search.Problem) -> search.Problem:
        """The problem with its cluster price settled."""
        if isinstance(self.cluster_price, str):
            if self.cluster_price == "auto" and self.n_clusters is not None:
                price = 0.0
            else:
                price = self.price_factor * search.farthest_first_price(problem, self._expected(problem))
        else:
            price = float(self.cluster_price)
        return search.with_price(problem, price)

    def _expected(self, problem: search.Problem) -> int:
        """Clusters a start partition has."""
        expected = _GUESS if self.n_clusters is None else int(self.n_clusters)
        return min(expected, problem.cap, len(problem.table))

    def _search(self, problem: search.Problem, given: list[search.Labels] | None) -> search.Solution:
        """The best of all starts."""
        if given is not None:
            n_starts = len(given)
        else:
            n_starts = 1 if self.init == "single" and problem.rules.coherent else int(self.n_init)

        def run(start: int) -> search.Solution:
            if given is not None:
                labels: search.Labels | None = given[start]
            elif self.init == "auto" and not problem.rules.coherent:
                labels = None
            else:
                kind = ("random", "farthest")[start % 2] if self.init == "auto" else self.init
                labels = search.start_labels(problem, kind, self._expected(problem), start)
            solution = search.descend(self._watched(problem, start, n_starts), labels, start)
            if self.verbose:
                print(
                    f"CRAFT start {start + 1}/{n_starts}: {solution.labels.max() + 1} clusters, objective {solution.objective:.6g}, "
                    f"{solution.n_iter} passes"
                )
            return solution

        return search.best_of(run, n_starts, problem)

    def _watched(self, problem: search.Problem, start: int, n_starts: int) -> search.Problem:
        """The problem of one start, with whoever follows its passes (the command line) told."""
        if self._progress is None:
            return problem
        return replace(problem, on_pass=partial(self._progress, start, n_starts))

    def _print_pass(self, n_pass: int, n_clusters: int, objective: float) -> None:
        print(f"  pass {n_pass}: {n_clusters} clusters, objective {objective:.6g}")

    def _set_state(self, moments: Moments, rules: Rules, schema: Schema) -> None:
        """All fitted attributes that follow from the exact sums of the partition."""
        self._moments, self._rules, self.schema_ = moments, rules, schema
        clusters = self._clusters = Clusters(moments, Background(moments.total()), rules)
        grid, background = moments.grid, clusters.background
        self.n_clusters_ = moments.n_clusters
        self.cluster_price_ = rules.price
        self.objective_ = clusters.objective
        sizes = moments.sizes
        self.cluster_sizes_ = sizes.astype(np.int64) if moments.unit == 1.0 else sizes
        order = np.argsort(np.concatenate([schema.numeric_index, schema.categorical_index]))
        self.feature_mask_ = clusters.mask[:, order].astype(bool)
        self.feature_gains_ = clusters.gains[:, order]
        with np.errstate(invalid="ignore"):
            nothing = np.where(moments.present > 0, 0.0, np.nan)
        self.centers_ = grid.centre + moments.means()[0] / grid.scale + nothing
        self.variances_ = background.variance / clusters.precision / grid.scale**2 * (background.usable[: grid.p] > 0) + nothing
        probability = clusters.level_probabilities()
        self.level_probabilities_ = [
            probability[:, start : start + levels] for start, levels in zip(grid.level_start, schema.n_levels, strict=True)
        ]
        self.levels_ = [list(levels) for levels in schema.levels]
        self.numeric_features_in_ = np.array(schema.numeric_names, dtype=object)
        self.categorical_features_in_ = np.array(schema.categorical_names, dtype=object)

    # ---- new rows ----

    def _read_new(self, X: Any) -> MixedTable:
        check_is_fitted(self)
        table: MixedTable = self.schema_.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)
        return table

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Cheapest cluster of every row; columns are matched by name, levels by name.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
            With the columns of `fit`, in any order if they have names.

        Returns
        -------
        ndarray (n,) of int32
        """
        table = self._read_new(X)
        labels = np.full(len(table), -1, np.int32)
        lanes = -(-self.n_clusters_ // _kernel.PAD)
        threads = search.threads_for(effective_n_threads(self.n_threads), len(table) * sum(table.shape[1:]) * lanes)
        search.assign_only(table, self._clusters.tables(), labels, threads)
        return labels

    def transform(self, X: Any) -> NDArray[Any]:
        """Cost of every row under every cluster.

        Returns
        -------
        ndarray (n, K)
            Nats, background included, without the constant (1/2) log 2 pi of each numeric cell; the dtype of the
            numeric columns. Its smallest entry names the cluster.
        """
        table = self._read_new(X)
        costs = self._costs(table)
        return costs.astype(table.schema.dtype, copy=False)

    def _costs(self, table: MixedTable) -> NDArray[np.float64]:
        tables = self._clusters.tables()
        out = np.empty((len(table), self.n_clusters_))
        _kernel.costs(table.numeric, table.codes, tables, np.empty((1, _kernel.scratch_size(tables))), out)
        background = self._clusters.background
        own = background.row_costs(table.numeric, table.codes) if self._rules.coherent else background.categorical_row_costs(table.codes)
        out += own[:, None]
        return out

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the summed cost of the rows under their cheapest cluster, nats; higher is better.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        float
        """
        table = self._read_new(X)
        weight = check_weight(sample_weight, len(table))
        least = self._costs(table).min(axis=1)
        return -float(least.sum() if weight is None else (least * weight).sum())

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    # ---- reading the result ----

    def summary(self) -> Any:
        """Each cluster in words: its size and its features by gain, beside the whole table.

        Returns
        -------
        pandas.DataFrame
            One row per cluster and selected feature, largest gain first: cluster, rows, share, feature, gain in nats, what is
            typical in the cluster, what is typical in the whole table. Needs pandas (``pip install craftc[app]``).
        """
        check_is_fitted(self)
        return cluster_summary(self)


def _check_labels(labels: Any, n: int) -> search.Labels:
    """Start labels as contiguous int32, clusters renumbered 0..K-1 in order of value."""
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != n:
        raise ValueError(f"init labels must be one label for each of the {n} rows, got an array of shape {array.shape}.")
    if array.dtype.kind not in "iu":
        raise ValueError(f"init labels must be whole numbers >= 0, got an array of {array.dtype}.")
    if array.min() < 0:
        raise ValueError(f"init labels must be >= 0, got {array.min()}; every row needs a cluster to start from.")
    compact: search.Labels = np.unique(array, return_inverse=True)[1].astype(np.int32)
    return compact
