"""CRAFT: clusters of a mixed table, each with the few features that make it one."""

from __future__ import annotations

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

from craftc._common.optional import need_pandas
from craftc._common.random import seed_of
from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.typing import Labels
from craftc._common.validation import check_countable, check_number, check_weight
from craftc._common.weights import integer_weights
from craftc._kernels import craft as _kernel
from craftc.craft import fixed_price as search
from craftc.craft.automatic import automatic_outcome
from craftc.craft.clusters import Background, Clusters, Rules
from craftc.craft.description_length import clusters_of
from craftc.craft.diagnostics import contributions, margins, mean_margins, relative_costs, suspicions
from craftc.craft.parameters import check_size, given_starts, rules_of
from craftc.table import MixedTable, Schema
from craftc.table.cluster_summary import cluster_summary
from craftc.table.fit_input import read_table
from craftc.table.moments import Moments, integer_grid
from craftc.table.numeric_encoding import NumericEncoding

_GUESS = 8  # clusters the paper's heuristic is told to expect when nobody says


class CRAFT(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Clusters of a table of numbers and categories, with the features that make each cluster one.

    Every cluster describes its rows by a few features of its own; all other cells stand under the whole table's
    distribution. A feature's worth is what it saves in nats, for numbers and categories alike, so nothing needs to be scaled or
    encoded, and missing cells cost nothing.

    Parameters
    ----------
    n_clusters : int, optional
        None: as many as pay for themselves. A number is a wish under ``cluster_price="auto"``: the clusters found are merged, or split, to
        that many, at the least cost; with a numeric price it caps the openings; with "farthest-first" it is the guess that heuristic needs.
    cluster_price : {"auto", "farthest-first"} or float, default="auto"
        What a cluster must save to exist. "auto": its description length, (1/2) log N for itself and for each parameter of its features,
        and the entropy of the labels; the number of clusters then comes out of the data. A number: Lambda of the paper's objective in
        nats, no entropy of labels. "farthest-first": Lambda by the paper's heuristic. (``model="paper"`` reads "auto" as 0 when
        `n_clusters` is given, else as "farthest-first" with 8 expected.)
    price_factor : float, default=1.0
        Multiplies the (1/2) log N of "auto", or the price of "farthest-first". 2 to 4 gives fewer clusters where columns depend
        on each other inside clusters.
    selection : {"priced", "fixed", "free", "threshold", "global"}, default="priced"
        How each cluster chooses features. "priced": as many as pay their description length, none if none does. "fixed": the share
        `feature_fraction` of the numeric and of the categorical columns with the largest gains. "free": every feature that pays
        (under a numeric price: whose gain exceeds F_Delta). "threshold": the paper's approximate budget, see the two thresholds.
        "global": one choice for all clusters, by summed gain. (The paper's models read "priced" as "fixed".)
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
    numeric : {"auto", "raw", "rank"}, default="auto"
        How numeric columns enter. "auto": at most 10 distinct values are categories; a value that fills a fifth of the column is set
        apart from the rest; skewed or heavy-tailed columns enter by rank; others as numbers. "rank": always by rank. "raw": as they are.
        New rows are read the same way, and everything is reported in the columns' own units.
    categorical : "auto", list of names or positions, or boolean mask, default="auto"
        Which columns are categories. "auto": strings, categories, enums and booleans of a data frame; none of a plain array.
    missing : {"ignore", "category", "error"}, default="ignore"
        Missing cells: cost and count nothing; become a level of their own (categorical columns); or are refused.
    unknown : {"ignore", "error"}, default="ignore"
        A level never seen in fit: costs like the background, or is refused.
    max_clusters : int, default=100
        No cluster is opened beyond this number.
    init : {"auto", "single", "random", "farthest"}, array (n,) of int, or list of such arrays, default="auto"
        Start partitions. "auto" under the automatic price: one cluster, then k-means++-like seeds, every fourth start random; under a
        numeric price alternately random and farthest-first; ``model="paper"``: the paper's random row. Arrays are used as they
        are, one start each.
    n_init : int, default=8
        Starts; the lowest objective is kept (ties: the earlier start). Under the automatic price starts of our own are crossed: what
        the best and each of the others agree on is merged anew, and kept where that is better; a table of more than 16 384 rows
        is searched on a sample of so many first, and the best result goes on with all rows.
    max_iter : int, default=100
        Passes over the table at most, per start (a numeric price; the automatic search ends by itself).
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
        J on the way: of one cluster, of each better start and of the result ("auto"); of the start partition and after every
        pass of the start that was kept (a numeric price).
    n_iter_ : int
        Passes over the table that led to the result.
    converged_ : bool
        Whether the last pass moved no row.
    merge_path_ : sequence of MergeStep
        ``(n_clusters, objective, labels)`` of the result and on the way down to one cluster, always merging the cheapest pair
        ("auto" only); `cut` reads it.
    margins_ : ndarray (n,) of float32
        Nats by which each row prefers its cluster to the next best; inf with one cluster.
    cluster_margins_ : ndarray (K,) of float64
        Mean margin of the rows of each cluster.
    cluster_price_ : float
        Nats a cluster paid for itself: Lambda, or price_factor * (1/2) log N.
    cluster_sizes_ : ndarray (K,)
        Rows (with weights: their sum) per cluster.
    feature_mask_ : ndarray (K, D) of bool
        Features each cluster selected, in the order of the input columns. A numeric column that enters in several parts counts as
        selected when one of them is.
    feature_gains_ : ndarray (K, D) of float64
        What each feature saves in each cluster, nats, selected or not; the sum over the parts of a column.
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
    >>> model = CRAFT(random_state=0).fit(load_heart().data)
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
        selection: str = "priced",
        feature_fraction: float = 0.5,
        feature_sharing: float | None = None,
        categorical_threshold: float = 0.95,
        numeric_threshold: float = 0.5,
        model: str = "likelihood",
        numeric: str = "auto",
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
        rules = rules_of(self)
        source = read_table(self, X, categorical=self.categorical, missing=self.missing)
        weights = check_weight(sample_weight, len(source))
        check_countable(weights)
        weight, unit = integer_weights(weights)
        source_grid = integer_grid(source, weight)
        check_size(self, source)
        given = given_starts(self, len(source))
        encoding = NumericEncoding.fit(source, weights, self.numeric)
        table = encoding.apply(source)

        grid = source_grid if encoding.identity else integer_grid(table, weight)
        n_threads = effective_n_threads(self.n_threads)
        total = Moments.of_partition(grid, unit, table, weight, np.zeros(len(table), np.int32), 1, n_threads)
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
        outcome = self._search(problem, given)
        if not outcome.converged:
            warnings.warn(
                f"CRAFT stopped after {outcome.n_iter} passes while rows still moved; raise max_iter (now {self.max_iter}) or "
                "check that the model allows convergence (model='likelihood', selection other than 'threshold').",
                ConvergenceWarning,
                stacklevel=2,
            )
        labels, moments = outcome.labels, outcome.moments
        shown = moments
        if not encoding.identity:
            shown = Moments.of_partition(source_grid, unit, source, weight, labels, moments.n_clusters, n_threads)
            shown = shown.select(np.arange(moments.n_clusters))
        self._set_state(moments, outcome.rules, source.schema, encoding, shown)
        self.labels_ = labels
        self.objective_path_ = np.array(outcome.path)
        self.n_iter_, self.converged_ = outcome.n_iter, outcome.converged
        self.merge_path_ = outcome.merge_path
        self.margins_ = margins(self._clusters, table, np.float32)
        self.cluster_margins_ = mean_margins(self.margins_, labels, weights, self.n_clusters_)
        for sentence in suspicions(source, self.n_clusters_, outcome.clusters_at_4) if rules.by_length else ():
            warnings.warn(sentence, UserWarning, stacklevel=2)
        return self

    @property
    def _automatic(self) -> bool:
        """Whether clusters pay by description length."""
        return self.model == "likelihood" and isinstance(self.cluster_price, str) and self.cluster_price == "auto"

    def _cap(self) -> int:
        """Clusters allowed; a wished number is no cap where merges lead to it."""
        cap = int(self.max_clusters)
        if self.n_clusters is not None and self.cluster_price != "farthest-first":
            cap = max(cap, int(self.n_clusters)) if self._automatic else min(cap, int(self.n_clusters))
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

    def _search(self, problem: search.Problem, given: list[Labels] | None) -> search.Solution:
        """The best of all starts."""
        n_starts = len(given) if given is not None else 1 if self.init == "single" and problem.rules.coherent else int(self.n_init)
        if problem.rules.by_length:
            kind = self.init if isinstance(self.init, str) else "auto"
            lines = [self._watched(problem, start, n_starts) for start in range(n_starts)]
            return automatic_outcome(problem, lines, given, kind, self.n_clusters)
        problem = self._priced(problem)
        # one object for all starts: what it works out (the opening limits) is worked out once
        line = replace(problem, n_threads=1) if search.side_by_side(problem, n_starts) > 1 else problem

        def run(start: int) -> search.Solution:
            if given is not None:
                labels: Labels | None = given[start]
            elif isinstance(self.init, str) and self.init == "auto" and not problem.rules.coherent:
                labels = None
            else:
                kind = ("random", "farthest")[start % 2] if self.init == "auto" else self.init
                labels = search.start_labels(line, kind, self._expected(problem), start)
            solution = search.descend(self._watched(line, start, n_starts), labels, start)
            if self.verbose:
                print(
                    f"CRAFT start {start + 1}/{n_starts}: {solution.moments.n_clusters} clusters, objective {solution.objective:.6g}, "
                    f"{solution.n_iter} passes"
                )
            return solution

        return search.by_first_appearance(search.best_of(search.run_starts(run, n_starts, problem)))

    def _watched(self, problem: search.Problem, start: int, n_starts: int) -> search.Problem:
        """The problem of one start, with whoever follows its passes (the command line) told."""
        if self._progress is None:
            return problem
        return replace(problem, on_pass=partial(self._progress, start, n_starts))

    def _print_pass(self, n_pass: int, n_clusters: int, objective: float) -> None:
        print(f"  pass {n_pass}: {n_clusters} clusters, objective {objective:.6g}")

    def _set_state(self, moments: Moments, rules: Rules, schema: Schema, encoding: NumericEncoding, shown: Moments) -> None:
        """All fitted attributes that follow from exact sums: `moments` as the model sees the table, `shown` in its own units."""
        self._moments, self._rules, self.schema_, self._encoding, self._shown = moments, rules, schema, encoding, shown
        clusters = self._clusters = clusters_of(moments, Background(moments.total()), rules)
        self.n_clusters_ = moments.n_clusters
        self.cluster_price_ = clusters.price
        self.objective_ = clusters.objective
        sizes = moments.sizes
        self.cluster_sizes_ = sizes.astype(np.int64) if moments.unit == 1.0 else sizes
        self.feature_mask_ = np.zeros((moments.n_clusters, schema.n_columns), bool)
        self.feature_gains_ = np.zeros(self.feature_mask_.shape)
        for d, column in enumerate(encoding.source):
            self.feature_mask_[:, column] |= clusters.mask[:, d].astype(bool)
            self.feature_gains_[:, column] += clusters.gains[:, d]
        own = clusters if shown is moments else Clusters(shown, Background(shown.total()), Rules())
        grid, background = shown.grid, own.background
        nothing = np.where(shown.present > 0, 0.0, np.nan)
        self.centers_ = grid.centre + shown.means()[0] / grid.scale + nothing
        self.variances_ = background.variance / own.precision / grid.scale**2 * (background.usable[: grid.p] > 0) + nothing
        probability = own.level_probabilities()
        self.level_probabilities_ = [
            probability[:, start : start + levels] for start, levels in zip(grid.level_start, schema.n_levels, strict=True)
        ]
        self.levels_ = [list(levels) for levels in schema.levels]
        self.numeric_features_in_ = np.array(schema.numeric_names, dtype=object)
        self.categorical_features_in_ = np.array(schema.categorical_names, dtype=object)

    # ---- new rows ----

    def _read_new(self, X: Any) -> MixedTable:
        check_is_fitted(self)
        return self._encoding.apply(self.schema_.encode(X, unknown=self.unknown, estimator_name=type(self).__name__))

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
        threads = threads_for(effective_n_threads(self.n_threads), len(table) * len(self._encoding.source) * lanes)
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
        return costs.astype(self.schema_.dtype, copy=False)

    def _costs(self, table: MixedTable) -> NDArray[np.float64]:
        out = relative_costs(self._clusters, table)
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

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Margin of every row: nats by which it prefers its cluster to the next best; inf with one cluster.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable

        Returns
        -------
        ndarray (n,) of float64
            Near 0: a row between two clusters. 5: e^5 = 150 times likelier in its own.
        """
        return np.asarray(margins(self._clusters, self._read_new(X)))

    def explain(self, X: Any) -> Any:
        """Why each row is where it is: per feature, the nats by which it speaks for the row's cluster against the next best.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable

        Returns
        -------
        pandas.DataFrame
            One row per row of X: `cluster`, `next` (-1 with one cluster), `size` (what the sizes of the two clusters say) and one
            column per feature. Features and size add up to the margin. Needs pandas.
        """
        table, pd = self._read_new(X), need_pandas()
        own, other, parts, sizes = contributions(self._clusters, table)
        per_column = np.zeros((len(table), self.schema_.n_columns))
        for d, column in enumerate(self._encoding.source):
            per_column[:, column] += parts[:, d]
        index = X.index if isinstance(X, pd.DataFrame) else None
        frame = pd.DataFrame(per_column, columns=list(self.schema_.columns), index=index)
        for position, (name, values) in enumerate((("cluster", own), ("next", other), ("size", sizes))):
            frame.insert(position, name, values, allow_duplicates=True)
        return frame

    def cut(self, n_clusters: int) -> Labels:
        """Labels at another number of clusters, from the merge path, for free.

        Parameters
        ----------
        n_clusters : int
            From 1 to `n_clusters_`.

        Returns
        -------
        ndarray (n,) of int32
            Numbered by first appearance. Where the path skips that number: the next smaller one it has.

        Raises
        ------
        ValueError
            More clusters than were found, or a model without a merge path.
        """
        check_is_fitted(self)
        if not self.merge_path_:
            raise ValueError("There is no merge path: only cluster_price='auto' keeps one.")
        check_number("n_clusters", n_clusters, least=1, whole=True)
        if n_clusters > self.n_clusters_:
            raise ValueError(
                f"cut({n_clusters}) asks for more than the {self.n_clusters_} clusters found; fit with n_clusters={n_clusters} "
                "to split further."
            )
        at = next(i for i, step in enumerate(self.merge_path_) if step.n_clusters <= n_clusters)
        labels: Labels = self.merge_path_[at].labels.astype(np.int32)
        return labels

    def summary(self) -> Any:
        """Each cluster in words: its size and its features by gain, beside the whole table.

        Returns
        -------
        pandas.DataFrame
            One row per cluster and selected feature, largest gain first: cluster, rows, share, feature, gain in nats, what is
            typical in the cluster, what is typical in the whole table. ``frame.attrs["merges"]`` lists (K, objective) down the
            merge path, so that near ties are seen. Needs pandas (``pip install craftc[app]``).
        """
        check_is_fitted(self)
        return cluster_summary(self)
