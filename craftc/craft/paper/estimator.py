"""PaperCRAFT: the algorithm of the CRAFT paper and its variants, at a fixed price of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from craftc._common.estimator import all_or_nothing, set_convergence, warn_not_converged
from craftc._common.messages import warn_user
from craftc._common.random import seed_of
from craftc._common.threads import effective_n_threads
from craftc._common.typing import ColumnSelection, Floats, Labels, RandomStateInput, TableInput, WeightInput
from craftc._common.validation import Choice, Constraint, Number, check_parameters
from craftc.craft.answers.interpretation import Described
from craftc.craft.fitted import FittedClusters
from craftc.craft.paper.search import fixed_price_fit
from craftc.craft.parameters import (
    LEAST_FRACTION,
    MODELS,
    SELECTIONS,
    ModelSpec,
    StartsInput,
    check_selection_prior,
    given_starts,
    numeric_threshold_of,
)
from craftc.craft.progress import Progress, ProgressMeter
from craftc.craft.rows import RowStore
from craftc.craft.search import EncodedRows, FitConfig
from craftc.craft.search.starts import farthest_first_price
from craftc.distributed.open_input import open_input, set_input_attributes
from craftc.table import MixedTable
from craftc.table.declared import noted_dates
from craftc.table.moments import ExactSums
from craftc.table.numeric_encoding import NumericEncoding

_N_EXPECTED = 8  # clusters that the heuristic and the starts expect where n_clusters is None


class PaperCRAFT(Described):
    """Clusters of a mixed table by the algorithm of the CRAFT paper, at a fixed price of a cluster.

    A pass assigns every row to its cheapest cluster; a row whose cost exceeds the price of a new cluster
    opens one. Every cluster selects features, and models the others by the distribution of the whole table.
    The parameters of the paper [1]_ have to be chosen; `CRAFT` determines the number of clusters and of
    features from the data. docs/paper-craft.md lists the repairs of the printed algorithm.

    Parameters
    ----------
    n_clusters : int, optional
        With "farthest-first": the guess that this heuristic needs; None: 8. With a number as `cluster_price`:
        the largest number of clusters.
    cluster_price : "farthest-first" or float, default="farthest-first"
        What a cluster must save to exist. A number: Lambda of the objective in nats;
        `craftc.craft.cluster_price` converts the paper's lambda. "farthest-first": Lambda by the paper's
        heuristic, the distance of the farthest row to `n_clusters` farthest-first seeds, scaled to the share
        `feature_fraction`.
    price_factor : float, default=1.0
        Multiplies the price of "farthest-first", and the (1/2) log N for each parameter of a feature of
        "priced". Larger values give fewer clusters.
    model : {"likelihood", "paper", "paper-relative", "paper-fixed"}, default="paper"
        "paper": the algorithm as printed, with repairs. "paper-relative": the same, but numeric features are
        ranked by the ratio of the cluster's standard deviation to the table's, not by the former alone, which
        prefers columns of small units. "paper-fixed": as "paper" with all standard deviations 1, in the units
        of the columns. "likelihood": the coherent objective, which never rises and converges in finitely many
        passes; clusters whose merge lowers it are merged.
    selection : {"fixed", "free", "threshold", "priced"}, default="fixed"
        How a cluster selects features. "fixed": the share `feature_fraction` of the numeric and of the
        categorical columns with the largest gains. "free": every feature whose gain exceeds its price
        F_Delta. "threshold": the paper's approximate budget, see the two thresholds. "priced": the features
        that lower the description length, possibly none; only with ``model="likelihood"``.
    feature_fraction : float in [1e-9, 1], default=0.5
        Share m of the features that a cluster selects. 1: no feature selection.
    feature_variance : float in (0, m(1 - m)), optional
        Variance rho of the paper's prior on selection, which determines F_Delta. None: max(m(1 - m) - 0.01,
        m(1 - m) / 2).
    feature_sharing : float in [0, 1], default=0.0
        s = rho / (m(1 - m)) of a prior whose draw for a column all clusters have in common; for "fixed" and
        "free". 0: each cluster selects its own features (local). 1: one choice for all clusters, by their
        mean gains (global). Between, with ``model="likelihood"``: columns that some clusters select, and
        others do not, have a price, see docs/paper-craft.md.
    categorical_threshold : float, default=0.95
        eps_c: "threshold" selects a categorical feature whose entropy in the cluster is lower than in the
        table by more than this share. The paper's models compare, as printed, with the cost G_d of the
        cluster's cells under the table's distribution: G_d - G_kd > eps_c G_d.
    numeric_threshold : float or ("absolute", float), default=0.5
        eps_v: "threshold" selects a numeric feature whose variance in the cluster is below this share of the
        variance of the table. ``("absolute", v)``, the paper's form: whose variance is below v, in squared
        units of the column as encoded by `numeric`.
    numeric : {"raw", "auto", "rank"}, default="raw"
        Encoding of numeric columns. "raw": unchanged. "rank": normal scores of the ranks. "auto": a column of
        at most 10 values becomes categorical, frequent values get columns of their own, and skewed or
        heavy-tailed rests become ranks; the paper's models read it as "raw".
    categorical, missing, unknown
        As in `CRAFT`.
    max_clusters : int, default=100
        Largest number of clusters.
    init : {"auto", "single", "random", "farthest"}, array (n,) of int, or list of such arrays, default="auto"
        Start partitions. "auto": one random row, as in the paper; for "likelihood" random and farthest-first
        partitions in turn. Arrays: one start each.
    n_init : int, default=8
        Number of starts; the lowest objective is kept (ties: the earlier start). "likelihood" adds a start
        from one cluster unless `init` gives labels or is "single". For "paper" and "paper-relative" with
        numeric columns, whose printed objective hardly depends on the clusters, the shortest description is
        kept.
    max_iter : int, default=100
        Largest number of passes over the table per start.
    random_state, n_threads, verbose
        As in `CRAFT`.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance.
    n_clusters_ : int
        Number of clusters K.
    objective_, objective_path_ : float, ndarray of float64
        The objective J of the partition in nats, recomputed from exact sums; J of the start partition and
        after every pass, for the start that was kept.
    n_iter_, converged_ : int, bool
        Passes of this start, and whether its last pass moved no row.
    cluster_price_, price_factor_ : float
        Lambda in nats, and the price factor.
    cluster_sizes_, cluster_names_, feature_mask_, feature_gains_, feature_importances_, centers_, \
variances_, level_probabilities_, margins_, cluster_margins_, n_features_in_, feature_names_in_
        As in `CRAFT`. There is no merge path and no link between columns: `merge_path_` and `column_links_`
        are empty, and `dependence_ratio_` is NaN.

    References
    ----------
    .. [1] V. K. Garg, C. Rudin, T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS
       2016, Algorithm 2 and equations (5)-(7).

    Examples
    --------
    >>> from craftc import PaperCRAFT
    >>> from craftc.datasets import load_heart
    >>> model = PaperCRAFT(3, random_state=0).fit(load_heart().data)
    >>> model.labels_.shape, model.feature_mask_.sum(axis=1).tolist()
    ((270,), [7, 7])
    """

    n_clusters: int | None

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": Number(least=1, whole=True, optional=True),
        "cluster_price": Choice(("farthest-first",), "or a number of nats >= 0", Number(least=0.0)),
        "price_factor": Number(above=0.0, most=1e12),
        "model": Choice(MODELS),
        "selection": Choice(SELECTIONS),
        "feature_fraction": Number(least=LEAST_FRACTION, most=1.0),
        "feature_sharing": Number(least=0.0, most=1.0),
        "categorical_threshold": Number(least=0.0),
        "numeric": Choice(("auto", "raw", "rank")),
        "missing": Choice(("ignore", "category", "error")),
        "unknown": Choice(("ignore", "error")),
        "max_clusters": Number(least=1, whole=True),
        "max_iter": Number(least=1, whole=True),
    }

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        cluster_price: str | float = "farthest-first",
        price_factor: float = 1.0,
        model: str = "paper",
        selection: str = "fixed",
        feature_fraction: float = 0.5,
        feature_variance: float | None = None,
        feature_sharing: float = 0.0,
        categorical_threshold: float = 0.95,
        numeric_threshold: float | tuple[str, float] = 0.5,
        numeric: str = "raw",
        categorical: ColumnSelection = "auto",
        missing: str = "ignore",
        unknown: str = "ignore",
        max_clusters: int = 100,
        init: StartsInput = "auto",
        n_init: int = 8,
        max_iter: int = 100,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.cluster_price = cluster_price
        self.price_factor = price_factor
        self.model = model
        self.selection = selection
        self.feature_fraction = feature_fraction
        self.feature_variance = feature_variance
        self.feature_sharing = feature_sharing
        self.categorical_threshold = categorical_threshold
        self.numeric_threshold = numeric_threshold
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

    def _no_density(self) -> str:
        if self.model == "likelihood":
            return ""
        return f"model={self.model!r} defines no density; use model='likelihood'."

    @all_or_nothing
    def fit(
        self,
        X: TableInput,
        y: object = None,
        sample_weight: WeightInput = None,
        *,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Find the clusters of a table.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D), MixedTable, path, dataset, or stream of record batches
            As in `CRAFT.fit`; collections are not supported.
        y : ignored
        sample_weight : array (n,), optional
            Weight >= 0 of every row. From the same start partition and at a given price, weight 2 gives the
            same bits as the row twice in ``model="likelihood"``. In the paper's models the second row may
            open a cluster of its own.
        callback : callable, optional
            Called with a `craftc.craft.Progress`, as in `CRAFT.fit`.

        Returns
        -------
        PaperCRAFT
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            A parameter, the table or the weights are invalid. A fitted estimator keeps its fitted attributes.
        """
        check_parameters(self)
        spec = self._model_spec()
        meter, n_threads = ProgressMeter(callback, int(self.verbose)), effective_n_threads(self.n_threads)
        with open_input(X) as source:
            if source.place == "partitions":
                raise ValueError(
                    f"PaperCRAFT reads tables in this process, got a {type(X).__name__}; gather its rows, or "
                    "use CRAFT, which fits collections."
                )
            table = source.read(self.categorical, self.missing, n_threads, noted_dates(X, self.categorical))
            assert isinstance(table, MixedTable)
            numeric = "raw" if self.numeric == "auto" and not spec.coherent else self.numeric

            def encode(_: RowStore[Any, Any], weights: Floats | None) -> NumericEncoding:
                return NumericEncoding.fit(table, weights, numeric, n_threads)

            encoded = EncodedRows.of_table(table, sample_weight, n_threads, encode)
            self.labels_ = self._fit(X, table, encoded, spec, meter, n_threads)
        return self

    def _model_spec(self) -> ModelSpec:
        """The model that the parameters specify, without its price; raises if they contradict each other."""
        if self.selection == "priced" and self.model != "likelihood":
            raise ValueError(
                f"selection='priced' needs model='likelihood', got model={self.model!r}; choose another "
                "selection, such as 'fixed'."
            )
        check_selection_prior(float(self.feature_fraction), self.feature_variance)
        share = float(self.feature_sharing)
        if share > 0.0 and self.selection not in ("fixed", "free"):
            raise ValueError(
                f"feature_sharing needs selection='fixed' or 'free', got selection={self.selection!r}; "
                "choose one of these, or leave feature_sharing at 0."
            )
        if 0.0 < share < 1.0 and self.model != "likelihood":
            raise ValueError(
                f"feature_sharing between 0 and 1 needs model='likelihood', got model={self.model!r}; choose "
                "this model, or feature_sharing 0 or 1."
            )
        absolute, numeric_threshold = numeric_threshold_of(self.numeric_threshold)
        return ModelSpec(
            self.model,
            self.selection,
            0.0,
            float(self.price_factor),
            float(self.feature_fraction),
            self.feature_variance,
            float(self.categorical_threshold),
            numeric_threshold,
            absolute,
            feature_sharing=share,
        )

    def _fit(
        self,
        X: TableInput,
        table: MixedTable,
        encoded: EncodedRows[Labels, NDArray[np.signedinteger]],
        spec: ModelSpec,
        meter: ProgressMeter,
        n_threads: int,
    ) -> Labels:
        """Find the clusters of rows that have been read; returns their labels."""
        rows, n = encoded.rows, len(encoded.rows)
        if self.n_clusters is not None and self.n_clusters > n:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the {n} rows of the table; ask for fewer "
                "clusters."
            )
        limit = min(int(self.max_clusters), max(n, 100))
        if self.n_clusters is not None and not isinstance(self.cluster_price, str):
            limit = min(limit, int(self.n_clusters))
        given = given_starts(self.init, n, limit)
        config = FitConfig(
            rows,
            encoded.weight,
            encoded.background,
            spec,
            limit,
            seed_of(self.random_state),
            n_threads,
            int(self.max_iter),
            meter.of_part(0),
            meter=meter,
        )
        expected = _N_EXPECTED if self.n_clusters is None else int(self.n_clusters)
        expected = min(expected, limit, n)
        if isinstance(self.cluster_price, str):
            price = spec.price_factor * farthest_first_price(config, expected)
        else:
            price = float(self.cluster_price)
        config = replace(config, spec=replace(spec, price=price))
        init = self.init if isinstance(self.init, str) else "auto"
        n_starts = 1 if init == "single" and spec.coherent else int(self.n_init)
        result = fixed_price_fit(config, n_starts if given is None else len(given), given, init, expected)
        if not result.converged:
            remedy = "use model='likelihood' and a selection other than 'threshold', which converge"
            warn_not_converged(
                self, result.n_iter, "passes", f"raise max_iter (now {self.max_iter}), or {remedy}"
            )
        found = len(np.unique(result.labels))
        if isinstance(self.cluster_price, str) and found >= 2 * expected and found > n / 10:
            warn_user(
                f"PaperCRAFT opened {found} clusters for {n} rows: the farthest-first price of about "
                f"{expected} clusters, {price:.4g} nats, is less than what rows cost inside clusters. Raise "
                "price_factor, pass cluster_price or max_clusters, or use CRAFT, which finds the number."
            )
        set_input_attributes(self, X, table)
        set_convergence(self, result)
        moments, schema = result.moments, encoded.source.schema
        original_units = encoded.in_original_units(moments, result.labels, n_threads)
        sums = ExactSums.of(moments)
        original = sums if encoded.encoding.identity else ExactSums.of(original_units)
        self._set_fitted(FittedClusters(result.spec, schema, encoded.encoding, sums, original, result.mask))
        self._set_rows(rows.statistics(self._fitted.clusters, result.labels, encoded.weights, n_threads))
        meter.finish(self.n_clusters_, self.objective_)
        return result.labels.astype(np.int32)
