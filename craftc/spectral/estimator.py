"""A graph of which columns of a mixed table depend on each other, and its spectrum as features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from craftc._common.optional import need_pandas
from craftc._common.random import seed_of, spread
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats
from craftc._common.validation import check_choice, check_flag, check_number
from craftc.spectral.encoding import Encoding
from craftc.spectral.factorization import Approximation, Factoriser, default_factors
from craftc.spectral.laplacian import basis, laplacian
from craftc.spectral.paper_objective import RATES, STEPS, Observed
from craftc.spectral.pseudo_likelihood import PseudoLikelihood
from craftc.spectral.solvers import Coordinates, Found, Objective, lasso_fit, ridge_fit
from craftc.table import MixedTable
from craftc.table.fit_input import read_table

OBJECTIVES = ("pseudo", "observed")
LAPLACIANS = ("signed", "abs")
CONDITIONALS = ("codes", "dense")
GROUPS = ("softmax", "logistic")
FACTORIZATIONS = ("hals", "svd")
N_COMPONENTS = 5  # what is kept where nothing is asked for, or all where there are fewer
EPS = 0.1  # times beta
SAMPLED, SHARE = 16_384, 16  # rows from which on a search goes by way of a sample, and one of how many rows is in it


def _scores(model: GraphSpectralFeatures) -> bool:
    if model.objective != "pseudo" or model.conditionals != "codes":
        raise AttributeError('Only objective="pseudo" with conditionals="codes" says how probable new rows are.')
    return True


class GraphSpectralFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learns which columns of a mixed table depend on each other, and turns rows into a few numbers that follow this graph.

    Numbers are scaled, categories become +-1 indicators, and every one of these p columns is modelled given all others. The weights of
    the edges between them maximise the pseudo-likelihood. The smoothest eigenvectors of the graph's Laplacian are the features: columns
    that go together are averaged, those that avoid each other (signed) are subtracted.

    Use it to see the graph (`edges`, `plot.dependence_graph`) first, and as a step before k-means or a classifier second: all p
    components are a rotation of the encoded columns and change nothing for k-means, a few are a summary that may help or not.

    Parameters
    ----------
    n_components : int, default=5
        Features l, at most p. The default is cut to p where there are fewer columns.
    objective : {"pseudo", "observed"}, default="pseudo"
        "observed": the paper's equations (5) to (7), for comparison only. Their likelihood is largest where all weights are 0, so that
        what they find is where the steps stop, not an estimate.
    laplacian : {"signed", "abs"}, default="signed"
        "abs", the paper's, drops the signs of the weights: columns that avoid each other are averaged and cancel.
    l2 : float, default=0.1
        Ridge penalty: l2 / 2 times the sum of squared weights is added to the negative pseudo-likelihood per row.
    categorical : "auto", or list of names, of positions, or boolean mask
        Categorical columns; "auto": by dtype.
    l1 : float, default=0
        Penalty of the absolute weights, which sets weak ones to exactly 0. It adds to `l2` (0 for the lasso alone), and goes without
        unary terms unless these are "free".
    normalized : bool, default=True
        D^-1/2 L D^-1/2. Without it the first features are rare, weakly tied indicators.
    skip_first : bool, default=False
        Leave out the first eigenvector: that of "abs" without `normalized` is the plain sum of unlike columns.
    conditionals : {"codes", "dense"}, default="codes"
        What a numeric and a categorical column see of each other: a code for every level, or the factorised row. There is no joint
        density behind "dense", and it finds known graphs less often.
    groups : {"softmax", "logistic"}, default="softmax"
        Levels of a variable exclude each other, or are modelled one by one (the paper's +-1 columns, literally).
    unary : bool or "free", default=True
        Every column has terms of its own, so that edges need not explain how frequent a level is, or where a column has its middle and
        how wide it is (c1 x + c2 x^2). "free": they may give a numeric column any shape; to be used where columns have spikes, long
        tails or two humps, which edges would explain otherwise. Not in the paper.
    beta : float, default=2.0
        Numeric columns are scaled to [-beta, beta]: their weight against the +-1 indicators in the features. The graph depends on it
        only by way of the tiny ridge of the `unary` terms.
    eps : float, optional
        0 < eps < beta; numbers closer to the mean than eps are alike. None: 0.1 beta. The graph depends on it.
    grid_size : int, default=16
        Nodes on either side of 0 that normalise the density of a numeric column.
    factorization : {"hals", "svd"}, default="hals"
        How the codes of the levels are found: a nonnegative factorisation of numbers and indicators as one table, or singular vectors,
        which need no `random_state`.
    n_factors : int, optional
        Of it; None: min(20, max(2, p // 2)).
    indicator_weight : float, default=1.0
        Of squared errors in the indicators.
    sign, theta0, rate, n_steps : int, float, float or None, int or None
        Of objective="observed": -1 steps as printed, downhill, +1 uphill; where all weights start; the size of a step against the
        gradient per row (None: 1.0 downhill, 0.5 uphill); steps (None: 20 and 50).
    missing : {"ignore", "category", "error"}, default="ignore"
        "ignore": a missing cell has no term in the likelihood, nor in those of others. "category": a missing category is a level of
        its own, a missing number is the mean of its column. "error": refused. In the features a missing cell is the mean of its column.
    unknown : {"ignore", "error"}, default="ignore"
        Levels never seen in `fit` are missing cells, or refused.
    tol : float, default=1e-4
        The fit ends where no entry of the gradient, per row, exceeds it.
    max_iter : int, default=5000
        Steps of the fit at most.
    random_state : int, RandomState or None, default=None
        Of the nonnegative factorisation. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line when the fit ends; 2: a line per step.

    Attributes
    ----------
    graph_ : ndarray (p, p)
        Weights of the edges, symmetric; positive: the two go together. 0 inside a variable.
    encoded_names_ : ndarray (p,) of str
        Numeric columns, then "variable=level"; a variable of two levels has one column, of the second.
    encoded_columns_ : ndarray (p,) of intp
        Input columns they come from.
    n_numeric_ : int
        How many of them are numeric.
    eigenvalues_ : ndarray (l,)
        Of the Laplacian, ascending: how rough the components are on the graph.
    components_ : ndarray (l, p)
        Eigenvectors; the first of the largest entries of each is positive.
    spectrum_ : ndarray (p,)
        All eigenvalues.
    codes_ : ndarray (p, 2)
        What a level that is off, and on, is to a numeric column; NaN for numeric columns.
    objective_, objective_path_ : float, ndarray
        Negative pseudo-likelihood per row in nats and its penalties, at the end and after every step. "observed": -(log L / n + log n)
        of the returned weights, and after every step of the weights as they were.
    n_iter_ : int
        Steps over all rows. Tables of 16 384 rows or more are searched by way of a sixteenth of the rows.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

    References
    ----------
    S. Sahoo, S. Chakraborty: Graph Spectral Feature Learning for Mixed Data of Categorical and Numerical Type. arXiv 2005.02817.
    J. Besag: Statistical Analysis of Non-Lattice Data. The Statistician 24, 1975 (pseudo-likelihood).

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> model = GraphSpectralFeatures(3, random_state=0).fit(heart)
    >>> model.transform(heart).shape
    (270, 3)
    >>> model.edges(top=2)[["source", "target", "sign"]].values.tolist()
    [['oldpeak', 'slope=1', -1], ['ca', 'slope=3', -1]]
    """

    def __init__(
        self,
        n_components: int = N_COMPONENTS,
        *,
        objective: str = "pseudo",
        laplacian: str = "signed",
        l2: float = 0.1,
        categorical: Any = "auto",
        l1: float = 0.0,
        normalized: bool = True,
        skip_first: bool = False,
        conditionals: str = "codes",
        groups: str = "softmax",
        unary: bool | str = True,
        beta: float = 2.0,
        eps: float | None = None,
        grid_size: int = 16,
        factorization: str = "hals",
        n_factors: int | None = None,
        indicator_weight: float = 1.0,
        sign: int = -1,
        theta0: float = 1.0,
        rate: float | None = None,
        n_steps: int | None = None,
        missing: str = "ignore",
        unknown: str = "ignore",
        tol: float = 1e-4,
        max_iter: int = 5000,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.laplacian = laplacian
        self.l2 = l2
        self.categorical = categorical
        self.l1 = l1
        self.normalized = normalized
        self.skip_first = skip_first
        self.conditionals = conditionals
        self.groups = groups
        self.unary = unary
        self.beta = beta
        self.eps = eps
        self.grid_size = grid_size
        self.factorization = factorization
        self.n_factors = n_factors
        self.indicator_weight = indicator_weight
        self.sign = sign
        self.theta0 = theta0
        self.rate = rate
        self.n_steps = n_steps
        self.missing = missing
        self.unknown = unknown
        self.tol = tol
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

    def fit(self, X: Any, y: Any = None) -> GraphSpectralFeatures:
        """Learn the graph of a table and the basis of its Laplacian.

        Parameters
        ----------
        X : data frame, array or MixedTable (n, D), n >= 2
            At least two columns must vary; constant ones are left out with a warning.
        y : ignored

        Returns
        -------
        GraphSpectralFeatures
            Itself.
        """
        self._check_parameters()
        table = read_table(self, X, categorical=self.categorical, missing=self.missing)
        _check_rows(table)
        encoding = Encoding.of(table, float(self.beta))
        n_components = self._check_sizes(encoding)
        if self.missing == "category":
            table = encoding.filled(table)
        # small products by one BLAS thread: their bits then do not depend on how many there are
        with threadpool_limits(1, "blas"):
            hat = self._approximation(encoding, table)
            graph = self._pseudo(encoding, table, hat) if self.objective == "pseudo" else self._observed(encoding, table, hat)
            self.spectrum_, vectors = basis(laplacian(graph, self.laplacian, self.normalized))
        kept = slice(int(self.skip_first), int(self.skip_first) + n_components)
        self._encoding, self.graph_ = encoding, graph
        self.eigenvalues_, self.components_ = self.spectrum_[kept].copy(), vectors[kept].copy()
        self.encoded_names_ = np.array(encoding.names, dtype=object)
        self.encoded_columns_, self.n_numeric_ = encoding.source, encoding.p1
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _approximation(self, encoding: Encoding, table: MixedTable) -> Approximation:
        """The factorised table, centred and scaled."""
        factoriser = Factoriser(encoding, table, float(self.indicator_weight), effective_n_threads(self.n_threads))
        k = default_factors(encoding.p) if self.n_factors is None else int(self.n_factors)
        factors = factoriser.svd(k) if self.factorization == "svd" else factoriser.hals(k, seed_of(self.random_state))
        return factors.approximation(float(self.beta))

    def _pseudo(self, encoding: Encoding, table: MixedTable, hat: Approximation) -> Floats:
        """The graph that maximises the penalised pseudo-likelihood."""
        codes = hat.codes(encoding, table)
        self.codes_ = np.concatenate([np.full((encoding.p1, 2), np.nan), codes])
        seen = hat if self.conditionals == "dense" else None
        objective = self._penalised(encoding, table, seen)
        coordinates = Coordinates(objective, encoding.scaled(table), self._eps(), self.groups == "softmax")
        search: dict[str, Any] = {"tol": float(self.tol), "max_iter": int(self.max_iter), "told": self._told}
        if self.l1:
            found = lasso_fit(objective, coordinates, float(self.l1), **search)
        else:
            rows = spread(table.n_rows, table.n_rows // SHARE, 0) if table.n_rows >= SAMPLED else None
            sample = None if rows is None else self._penalised(encoding, table.take(rows), seen and seen.take(rows))
            found = ridge_fit(objective, coordinates, sample, **search)
        self._set_search(found)
        self._parameters = found.parameters
        return found.parameters.theta

    def _penalised(self, encoding: Encoding, table: MixedTable, hat: Approximation | None) -> Objective:
        unary = self.unary == "free" or (bool(self.unary) and self.l1 == 0)
        return Objective(self._likelihood(encoding, table, hat), float(self.l2), unary)

    def _likelihood(self, encoding: Encoding, table: MixedTable, hat: Approximation | None) -> PseudoLikelihood:
        return PseudoLikelihood(
            encoding,
            table,
            self.codes_[encoding.p1 :],
            beta=float(self.beta),
            eps=self._eps(),
            grid_size=int(self.grid_size),
            softmax=self.groups == "softmax",
            hat=hat,
            n_threads=effective_n_threads(self.n_threads),
            free=self.unary == "free",
        )

    def _set_search(self, found: Found) -> None:
        self.objective_, self.objective_path_ = found.objective, found.path
        self.n_iter_, self.converged_ = len(found.path), found.converged
        if self.verbose > 0:
            print(f"{self.n_iter_} steps: objective {found.objective:.6f}, gradient {found.gradient:.2e}")
        if not found.converged:
            limit = self.n_iter_ >= self.max_iter
            way_out = "raise max_iter, tol or l2" if limit else "rounding leaves no better step, so raise tol or l2"
            warnings.warn(
                f"GraphSpectralFeatures stopped after {self.n_iter_} steps with a gradient of {found.gradient:.1e}, above "
                f"tol={self.tol:g}; {way_out}.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _told(self, step: int, value: float, gradient: float) -> None:
        if self.verbose > 1:
            print(f"step {step}: objective {value:.6f}, gradient {gradient:.2e}")

    def _observed(self, encoding: Encoding, table: MixedTable, hat: Approximation) -> Floats:
        """Where so many steps of the paper's equation (6) lead."""
        self.__dict__.pop("_parameters", None)
        observed = Observed(encoding, table, hat.table(), self._eps())
        sign = int(self.sign)
        rate = RATES[sign] if self.rate is None else float(self.rate)
        n_steps = STEPS[sign] if self.n_steps is None else int(self.n_steps)
        self.codes_ = np.concatenate([np.full((encoding.p1, 2), np.nan), hat.codes(encoding, table)])
        graph, path = observed.walk(sign, float(self.theta0), rate, n_steps)
        self.objective_, self.objective_path_ = -observed(graph)[0], -path[1:]
        self.n_iter_, self.converged_ = n_steps, False
        return graph

    # ---- the graph ----

    def edges(self, top: int | None = None) -> Any:
        """The edges of the graph, strongest first.

        Parameters
        ----------
        top : int, optional
            So many of them; None: all that are not 0.

        Returns
        -------
        pandas DataFrame
            `source` and `target`, names of encoded columns, as networkx.from_pandas_edgelist reads them; `weight`; `sign`, 1: they go
            together, -1: they avoid each other.
        """
        check_is_fitted(self)
        if top is not None:
            check_number("top", top, least=0, whole=True)
        pd = need_pandas()
        s, t = np.triu_indices(len(self.graph_), 1)
        weight = self.graph_[s, t]
        order = np.argsort(-np.abs(weight), kind="stable")[: np.count_nonzero(weight)][:top]
        names = self.encoded_names_
        columns = {"source": names[s[order]], "target": names[t[order]], "weight": weight[order]}
        return pd.DataFrame({**columns, "sign": np.sign(weight[order]).astype(np.int64)})

    @available_if(_scores)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None) -> float:
        """Mean pseudo-likelihood of rows, in nats: the sum over their columns of ln p(column | the others).

        Larger is better; cross-validate it to choose `l2`.

        Parameters
        ----------
        X : data frame, array or MixedTable (n, D)
            Numbers outside the range of `fit` count as its ends.
        y : ignored

        Returns
        -------
        float
        """
        table, encoding = self._new_rows(X), self._encoding
        if not hasattr(self, "_parameters"):
            raise NotFittedError('This model was fitted with objective="observed", which says nothing of rows; fit it again to score.')
        table = encoding.clipped(table)
        likelihood = self._likelihood(encoding, encoding.filled(table) if encoding.schema.missing == "category" else table, None)
        return likelihood(self._parameters)[0]

    # ---- rows ----

    def transform(self, X: Any) -> NDArray[Any]:
        """The features of rows.

        Parameters
        ----------
        X : data frame, array or MixedTable (n, D)
            Columns are matched by name where both sides have names.

        Returns
        -------
        ndarray (n, l), of the dtype of the numbers in `fit`
            Encoded rows times `components_`. A missing cell, or a level never seen, counts as the mean of its column.
        """
        check_is_fitted(self)
        return self._encoding.project(self._new_rows(X), self.components_)

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Rows that have these features: with all p components the table itself, with fewer its smoothest part.

        Directions that are not among the components are filled with their means. A category is the level whose indicator is largest.

        Parameters
        ----------
        X : array (n, l)

        Returns
        -------
        pandas DataFrame, or ndarray (n, D) of numbers where the input had no names and no categories
        """
        check_is_fitted(self)
        features = np.asarray(X, np.float64)
        if features.ndim != 2 or features.shape[1] != len(self.components_):
            raise ValueError(f"inverse_transform needs {len(self.components_)} features for every row, got shape {features.shape}.")
        encoding = self._encoding
        columns = encoding.decode(encoding.mean + (features - encoding.mean @ self.components_.T) @ self.components_)
        if not encoding.schema.named and not len(encoding.schema.categorical_index):
            return np.column_stack(columns)
        return need_pandas().DataFrame(dict(zip(encoding.schema.columns, columns, strict=True)))

    def _new_rows(self, X: Any) -> MixedTable:
        check_is_fitted(self)
        return self._encoding.schema.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)

    # ---- checks ----

    def _eps(self) -> float:
        return EPS * float(self.beta) if self.eps is None else float(self.eps)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, least=1, whole=True)
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("laplacian", self.laplacian, LAPLACIANS)
        check_choice("conditionals", self.conditionals, CONDITIONALS)
        check_choice("groups", self.groups, GROUPS)
        check_choice("factorization", self.factorization, FACTORIZATIONS)
        check_choice("unknown", self.unknown, ("ignore", "error"))
        check_number("l2", self.l2, least=0)
        check_number("l1", self.l1, least=0)
        beta = check_number("beta", self.beta, above=0)
        if self.eps is not None:
            check_number("eps", self.eps, above=0, below=beta, hint="beta")
        check_number("grid_size", self.grid_size, least=2, most=200, whole=True)
        check_number("indicator_weight", self.indicator_weight, above=0)
        check_number("tol", self.tol, above=0)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("theta0", self.theta0)
        check_number("verbose", self.verbose, least=0, whole=True)
        for name in ("normalized", "skip_first"):
            check_flag(name, getattr(self, name))
        if self.unary != "free" and not isinstance(self.unary, (bool, np.bool_)):
            raise TypeError(f"unary must be True, False or 'free', got {self.unary!r}.")
        if isinstance(self.sign, bool) or self.sign not in (-1, 1):
            raise ValueError(f"sign must be -1 (as printed) or 1 (uphill), got {self.sign!r}.")
        if self.theta0 == 0:
            raise ValueError('theta0 must not be 0: the gradient of objective="observed" is 0 there, and no step would leave it.')
        if self.rate is not None:
            check_number("rate", self.rate, above=0)
        if self.n_steps is not None:
            check_number("n_steps", self.n_steps, least=0, whole=True)
        if self.n_factors is not None:
            check_number("n_factors", self.n_factors, least=1, whole=True)

    def _check_sizes(self, encoding: Encoding) -> int:
        """How many components are kept; raise where the table has too few columns for what is asked."""
        usable = len(np.unique(encoding.source))
        if usable < 2:
            raise ValueError(
                f"A graph needs at least two columns that vary, got {usable} among {encoding.schema.n_columns} feature(s) "
                f"(n_features = {encoding.schema.n_columns}); constant columns do not count. Pass more columns."
            )
        p, room = encoding.p, encoding.p - int(self.skip_first)
        if self.n_components > room and self.n_components != N_COMPONENTS:
            raise ValueError(
                f"n_components must be at most {room}, got {self.n_components}: the table has p = {p} encoded columns"
                f"{', and skip_first leaves one out' if self.skip_first else ''}."
            )
        if self.n_factors is not None and self.n_factors > p:
            raise ValueError(f"n_factors must be at most p = {p}, the number of encoded columns, got {self.n_factors}.")
        return min(int(self.n_components), room)


def _check_rows(table: MixedTable) -> None:
    """Raise where there are too few rows, or a column has a level for every one of them."""
    if table.n_rows < 2:
        raise ValueError(f"A graph needs at least two rows, got {table.n_rows} sample (n_samples = {table.n_rows}).")
    for d, name in enumerate(table.categorical_names):
        n_levels = int((np.unique(table.codes[:, d]) < table.n_levels[d]).sum())
        if n_levels == table.n_rows > 2:
            raise ValueError(
                f"Column {name!r} has {n_levels} levels in {table.n_rows} rows, one for every row, which says nothing about how "
                "columns depend on each other; drop it or merge its levels."
            )

