"""The dependence graph of the columns of a mixed table, and features from its spectrum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import MixedInput, all_or_nothing, set_convergence, warn_not_converged
from craftc._common.messages import need_pandas, shown
from craftc._common.random import seed_of, spread
from craftc._common.threads import effective_n_threads, one_blas_thread
from craftc._common.typing import Floats, Ints
from craftc._common.validation import Choice, Constraint, Flag, Number, check_number, check_parameters
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.spectral.encoding import Encoding, check_rows
from craftc.spectral.factorization import Approximation, Factoriser, default_factors
from craftc.spectral.laplacian import basis, laplacian
from craftc.spectral.paper_objective import RATES, STEPS, Observed
from craftc.spectral.preconditioner import Preconditioner
from craftc.spectral.pseudo_likelihood import Objective, PseudoLikelihood
from craftc.spectral.solvers import SpectralFit, fit_weights
from craftc.table import MixedTable
from craftc.table.estimator_input import set_input_attributes
from craftc.table.numbers import read_numbers
from craftc.table.numeric_encoding import NumericEncoding

OBJECTIVES = ("pseudo", "observed")
LAPLACIANS = ("signed", "abs")
SCALINGS = ("range", "normal")
CONDITIONALS = ("codes", "dense")
GROUPS = ("softmax", "logistic")
FACTORIZATIONS = ("hals", "svd")
UNKNOWN = ("ignore", "error")
N_COMPONENTS = 5  # the default; reduced if the table has fewer encoded columns
EPS = 0.1  # times beta
SAMPLED, SHARE = (
    16_384,
    16,
)  # rows from which a fit starts on a sample, and how many rows one row of the sample represents


def _sample_of(table: MixedTable) -> Ints | None:
    """Rows on which a fit starts; None: all."""
    return spread(table.n_rows, table.n_rows // SHARE, 0) if table.n_rows >= SAMPLED else None


def _scores(model: GraphSpectralFeatures) -> bool:
    if model.objective != "pseudo" or model.conditionals != "codes":
        raise AttributeError('score needs objective="pseudo" and conditionals="codes".')
    return True


_SMALLEST_EPS = 1e-100  # of beta


class GraphSpectralFeatures(MixedInput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learns a graph of dependences between the columns of a mixed table, and projects rows onto its
    smoothest eigenvectors.

    Numbers are scaled, categories become +-1 indicators, and each of these p encoded columns is modelled
    given all others. The edge weights maximise the penalised pseudo-likelihood. The features are the
    smoothest eigenvectors of the graph's Laplacian: positively related columns are averaged, negatively
    related ones (signed Laplacian) subtracted.

    Its main use is the graph itself (`edges`, `plot.dependence_graph`). Before k-means or a classifier, all p
    components are a rotation of the encoded columns and change nothing for k-means; a few components are a
    summary that may or may not help.

    Parameters
    ----------
    n_components : int, default=5
        Number of features l, at most p. The default is reduced to p if there are fewer encoded columns.
    objective : {"pseudo", "observed"}, default="pseudo"
        "observed": the paper's equations (5) to (7), for comparison only. Their likelihood is largest at
        weights of zero, so the result depends on when the steps stop and is not an estimate.
    laplacian : {"signed", "abs"}, default="signed"
        "abs", the paper's, drops the signs of the weights: negatively related columns are averaged and
        cancel.
    l2 : float, default=0.1
        Ridge penalty: l2 / 2 times the sum of squared weights is added to the negative pseudo-likelihood per
        row.
    categorical : "auto", or list of names, of positions, or boolean mask
        Categorical columns; "auto": by dtype.
    l1 : float, default=0
        Lasso penalty of the edge weights, which sets weak ones to exactly 0. It is added to that of `l2` (0
        for the lasso alone), and unary terms are left out if `unary=True`.
    normalized : bool, default=True
        Use D^-1/2 L D^-1/2. Otherwise the first features are rare, weakly connected indicators.
    skip_first : bool, default=False
        Leave out the first eigenvector; for "abs" without `normalized` it is the plain sum of all columns.
    conditionals : {"codes", "dense"}, default="codes"
        How numeric and categorical columns enter each other's conditionals: by a code for every level, or by
        the low-rank approximation of the row. "dense" has no joint density and recovers known graphs less
        often.
    groups : {"softmax", "logistic"}, default="softmax"
        Levels of a variable are mutually exclusive, or modelled one by one (the paper's +-1 columns).
    unary : bool or "free", default="free"
        Every column has unary terms, so that edges need not explain the frequency of a level, or the shape of
        a numeric column. "free": linear splines, which fit a numeric column of any shape, and one term per
        value for a column with few values: at most `grid_size` and at most sqrt(n). True: c1 x + c2 x^2;
        spikes, long tails, counts and several modes are then partly explained by edges. Not in the paper.
    scaling : {"range", "normal"}, default="range"
        Numbers are used as they are, or replaced by the normal scores of their ranks (interpolated for new
        rows), so that a long tail does not compress the other rows of its column into a few nodes. Then they
        are scaled to [-beta, beta].
    beta : float, default=2.0
        Numeric columns are scaled to [-beta, beta], which sets their weight relative to the +-1 indicators in
        the features. The graph depends on it only through the small ridge penalty of the `unary` terms.
    eps : float, optional
        0 < eps < beta; scaled numbers within eps of the mean are treated as equal. None: 0.1 beta. The graph
        depends on it.
    grid_size : int, default=32
        Nodes on either side of 0 of the grid on which the density of a numeric column is normalised.
    factorization : {"hals", "svd"}, default="hals"
        Source of the codes of the levels: a nonnegative factorisation of numbers and indicators together
        (HALS; of 16 384 rows or more by way of a sixteenth of them), or singular vectors, which need no
        `random_state`.
    n_factors : int, optional
        Rank of the factorisation; None: min(20, max(2, p // 2)).
    indicator_weight : float, default=1.0
        Weight of squared errors in the indicators.
    sign, theta0, rate, n_steps : int, float, float or None, int or None
        For objective="observed" only: -1 steps downhill, as printed, +1 uphill; initial value of all weights;
        step size relative to the gradient per row (None: 1.0 downhill, 0.5 uphill); number of steps (None: 20
        and 50).
    missing : {"ignore", "category", "error"}, default="ignore"
        "ignore": a missing cell has no conditional, and enters no other. "category": missing categories are a
        level, and missing numbers are replaced by the mean of their column. "error": raise. In the features a
        missing cell is replaced by the mean of its column.
    unknown : {"ignore", "error"}, default="ignore"
        Treat levels not seen in `fit` as missing, or raise.
    tol : float, default=1e-4
        The fit has converged when no entry of the gradient, per row, exceeds it.
    max_iter : int, default=5000
        Maximum number of steps.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the nonnegative factorisation. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: print a line after the fit; 2: also a line per step.

    Attributes
    ----------
    graph_ : ndarray (p, p)
        Weights of the edges, symmetric; positive: positively related. 0 between indicators of one variable.
    encoded_names_ : ndarray (p,) of str
        Numeric columns, then "variable=level"; a variable of two levels has one encoded column, of the
        second.
    encoded_columns_ : ndarray (p,) of intp
        Input column of every encoded column.
    n_numeric_ : int
        Number of numeric encoded columns.
    eigenvalues_ : ndarray (l,)
        Eigenvalues of the components, ascending: their roughness on the graph.
    components_ : ndarray (l, p)
        Eigenvectors of the Laplacian, with a positive entry of largest magnitude (the first of those that
        tie).
    spectrum_ : ndarray (p,)
        All eigenvalues.
    codes_ : ndarray (p, 2)
        Numbers by which numeric columns see an indicator that is off, and on; NaN for numeric columns.
    objective_, objective_path_ : float, ndarray
        Negative pseudo-likelihood per row, in nats, plus penalties, at the end and after every step.
        "observed": -(log L / n + log n) of the returned weights, and of the weights after every step, before
        they are rescaled.
    n_iter_ : int
        Steps over all rows. A fit to 16 384 rows or more starts on a sixteenth of the rows.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined if the input has column names.

    References
    ----------
    S. Sahoo, S. Chakraborty: Graph Spectral Feature Learning for Mixed Data of Categorical and Numerical
    Type. arXiv 2005.02817. J. Besag: Statistical Analysis of Non-Lattice Data. The Statistician 24, 1975
    (pseudo-likelihood).

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart().data
    >>> model = GraphSpectralFeatures(3, random_state=0).fit(heart)
    >>> model.transform(heart).shape
    (270, 3)
    >>> model.edges(top=2)[["source", "target", "sign"]].values.tolist()
    [['oldpeak', 'slope=1', -1], ['age', 'ca', 1]]
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_components": Number(least=1, whole=True),
        "objective": Choice(OBJECTIVES),
        "laplacian": Choice(LAPLACIANS),
        "scaling": Choice(SCALINGS),
        "conditionals": Choice(CONDITIONALS),
        "groups": Choice(GROUPS),
        "factorization": Choice(FACTORIZATIONS),
        "unknown": Choice(UNKNOWN),
        "l2": Number(least=0),
        "l1": Number(least=0),
        "beta": Number(above=0),
        "grid_size": Number(least=2, most=200, whole=True),
        "indicator_weight": Number(above=0),
        "tol": Number(above=0),
        "max_iter": Number(least=1, whole=True),
        "theta0": Number(),
        "normalized": Flag(),
        "skip_first": Flag(),
        "rate": Number(above=0, optional=True),
        "n_steps": Number(least=0, whole=True, optional=True),
        "n_factors": Number(least=1, whole=True, optional=True),
    }
    _not_always_finite = ("codes_",)  # numeric columns have none
    _of_fit = ("random_state", "graph_", "spectrum_", "codes_", "_parameters", "objective_path_")

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
        unary: bool | str = "free",
        scaling: str = "range",
        beta: float = 2.0,
        eps: float | None = None,
        grid_size: int = 32,
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
        self.scaling = scaling
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

    # ---- fitting ----

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> GraphSpectralFeatures:
        """Learn the graph of a table and the basis of its Laplacian.

        Parameters
        ----------
        X : data frame, array or MixedTable (n, D), n >= 2
            At least two columns must vary; constant columns are left out with a warning.
        y : ignored

        Returns
        -------
        GraphSpectralFeatures
            The fitted estimator.
        """
        self._check_parameters()
        table = MixedTable.from_data(X, categorical=self.categorical, missing=self.missing)
        check_rows(table)
        given = table
        scores = NumericEncoding.normal(table) if self.scaling == "normal" else None
        if scores is not None:
            table = scores.apply(table)
        few = min(int(self.grid_size), math.isqrt(table.n_rows)) if self.unary == "free" else 0
        encoding = Encoding.of(table, float(self.beta), few)
        n_components = self._check_sizes(encoding)
        set_input_attributes(self, X, given)
        if self.missing == "category":
            table = encoding.filled(table)
        # small products: one BLAS thread, so that the bits do not depend on their number
        with one_blas_thread():
            low_rank = self._approximation(encoding, table)
            graph = (
                self._pseudo(encoding, table, low_rank)
                if self.objective == "pseudo"
                else self._observed(encoding, table, low_rank)
            )
            self.spectrum_, vectors = basis(laplacian(graph, self.laplacian, self.normalized))
        kept = slice(int(self.skip_first), int(self.skip_first) + n_components)
        self._encoding, self._scores, self.graph_ = encoding, scores, graph
        self.eigenvalues_, self.components_ = self.spectrum_[kept].copy(), vectors[kept].copy()
        self.encoded_names_ = np.array(encoding.names, dtype=object)
        self.encoded_columns_, self.n_numeric_ = encoding.source, encoding.p1
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _approximation(self, encoding: Encoding, table: MixedTable) -> Approximation:
        """The low-rank approximation of the table, centred and scaled."""
        factoriser = Factoriser(
            encoding, table, float(self.indicator_weight), effective_n_threads(self.n_threads)
        )
        k = default_factors(encoding.p) if self.n_factors is None else int(self.n_factors)
        rows = _sample_of(table)
        if self.factorization == "svd":
            factors = factoriser.svd(k)
        elif rows is None:
            factors = factoriser.hals(k, seed_of(self.random_state))
        else:
            factors = factoriser.hals_by_sample(k, seed_of(self.random_state), rows)
        return factors.approximation(float(self.beta), factoriser.n_threads)

    def _pseudo(self, encoding: Encoding, table: MixedTable, low_rank: Approximation) -> Floats:
        """The graph that maximises the penalised pseudo-likelihood."""
        codes = low_rank.codes(encoding)
        self.codes_ = np.concatenate([np.full((encoding.p1, 2), np.nan), codes])
        seen = low_rank if self.conditionals == "dense" else None
        objective = self._penalised(encoding, table, seen)
        preconditioner = Preconditioner(objective, table, self._eps(), self.groups == "softmax")
        rows = _sample_of(table)
        sample = (
            None if rows is None else self._penalised(encoding, table.take(rows), seen and seen.take(rows))
        )
        found = fit_weights(
            objective,
            preconditioner,
            sample,
            float(self.l1),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            callback=self._print_step,
        )
        self._set_fit(found)
        self._parameters = found.parameters
        return found.parameters.theta

    def _penalised(self, encoding: Encoding, table: MixedTable, low_rank: Approximation | None) -> Objective:
        unary = self.unary == "free" or (bool(self.unary) and self.l1 == 0)
        return Objective(self._likelihood(encoding, table, low_rank), float(self.l2), unary)

    def _likelihood(
        self, encoding: Encoding, table: MixedTable, low_rank: Approximation | None, *, refine: bool = False
    ) -> PseudoLikelihood:
        return PseudoLikelihood(
            encoding,
            table,
            self.codes_[encoding.p1 :],
            beta=float(self.beta),
            eps=self._eps(),
            grid_size=int(self.grid_size),
            softmax=self.groups == "softmax",
            low_rank=low_rank,
            n_threads=effective_n_threads(self.n_threads),
            free=self.unary == "free",
            refine=refine,
        )

    def _set_fit(self, found: SpectralFit) -> None:
        set_convergence(self, found)
        if self.verbose > 0:
            print(f"{self.n_iter_} steps: objective {found.objective:.6f}, gradient {found.gradient:.2e}")
        if not found.converged:
            limit = self.n_iter_ >= self.max_iter
            remedy = (
                "raise max_iter, tol or l2" if limit else "rounding allows no better step, so raise tol or l2"
            )
            gradient = f"the largest entry of the gradient is {found.gradient:.1e} with tol={self.tol:g}"
            warn_not_converged(self, self.n_iter_, "steps", f"{gradient}: {remedy}")

    def _print_step(self, step: int, value: float, gradient: float) -> None:
        if self.verbose > 1:
            print(f"step {step}: objective {value:.6f}, gradient {gradient:.2e}")

    def _observed(self, encoding: Encoding, table: MixedTable, low_rank: Approximation) -> Floats:
        """The weights after `n_steps` steps of the paper's equation (6)."""
        self.__dict__.pop("_parameters", None)
        observed = Observed(encoding, table, low_rank.table(), self._eps())
        sign = int(self.sign)
        rate = RATES[sign] if self.rate is None else float(self.rate)
        n_steps = STEPS[sign] if self.n_steps is None else int(self.n_steps)
        self.codes_ = np.concatenate([np.full((encoding.p1, 2), np.nan), low_rank.codes(encoding)])
        graph, path = observed.gradient_path(sign, float(self.theta0), rate, n_steps)
        self.objective_, self.objective_path_ = -observed(graph)[0], -path[1:]
        self.n_iter_, self.converged_ = n_steps, False
        return graph

    # ---- the graph ----

    def edges(self, top: int | None = None) -> Any:
        """The edges of the graph, strongest first.

        Parameters
        ----------
        top : int, optional
            Number of edges; None: all that are not 0.

        Returns
        -------
        pandas DataFrame
            `source` and `target`, names of encoded columns (as networkx.from_pandas_edgelist reads them);
            `weight`; `sign`, 1: positively related, -1: negatively.
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

        p is the density of a scaled number, which integrates to 1 over [-beta, beta], or the probability of a
        level, and under `unary="free"` of a number in a column with few values. Larger is better;
        cross-validate it to choose `l2`.

        Parameters
        ----------
        X : data frame, array or MixedTable (n, D)
            Numbers outside the range seen in `fit` are clipped to it. In a column with few values under
            `unary="free"`, other numbers count as the nearest of the values.
        y : ignored

        Returns
        -------
        float
        """
        table, encoding = self._new_rows(X), self._encoding
        if not hasattr(self, "_parameters"):
            raise NotFittedError(
                'score needs a fit with objective="pseudo", got one with objective="observed"; fit again.'
            )
        if encoding.schema.missing == "category":
            table = encoding.filled(table)
        return self._likelihood(encoding, encoding.in_range(table), None, refine=True)(self._parameters)[0]

    # ---- rows ----

    @rowwise(feature_names_out, lambda model: model._encoding.schema.dtype)
    def transform(self, X: Any) -> NDArray[Any]:
        """The features of rows.

        Parameters
        ----------
        X : data frame, array, MixedTable (n, D) or Dask collection, whose result is lazy
            Columns are matched by name where both sides have names.

        Returns
        -------
        ndarray (n, l), of the dtype of the numbers in `fit`
            Encoded rows times `components_`. A missing cell or a level not seen in `fit` is replaced by the
            mean of its column.
        """
        check_is_fitted(self)
        return self._encoding.project(self._new_rows(X), self.components_)

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Rows with these features: with all p components the table itself, with fewer its smoothest part.

        Directions outside the components are set to their means. A category is the level with the largest
        indicator.

        Parameters
        ----------
        X : array (n, l)

        Returns
        -------
        pandas DataFrame, or ndarray (n, D) of numbers where the input had no names and no categories
        """
        check_is_fitted(self)
        features = np.asarray(read_numbers(self, X, reset=None))
        if features.shape[1] != len(self.components_):
            raise ValueError(
                f"inverse_transform needs {len(self.components_)} features for every row, got shape "
                f"{features.shape}."
            )
        encoding = self._encoding
        columns = encoding.decode(
            encoding.mean + (features - encoding.mean @ self.components_.T) @ self.components_
        )
        if self._scores is not None:
            for j, recipe in zip(encoding.schema.numeric_index, self._scores.recipes, strict=True):
                columns[j] = recipe.undo(columns[j]).astype(encoding.schema.dtype)
        if not encoding.schema.named and not len(encoding.schema.categorical_index):
            return np.column_stack(columns)
        return need_pandas().DataFrame(dict(zip(encoding.schema.columns, columns, strict=True)))

    def _new_rows(self, X: Any) -> MixedTable:
        check_is_fitted(self)
        table = self._encoding.schema.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)
        return table if self._scores is None else self._scores.apply(table)

    # ---- checks ----

    def _eps(self) -> float:
        return EPS * float(self.beta) if self.eps is None else float(self.eps)

    def _check_parameters(self) -> None:
        check_parameters(self)
        if self.eps is not None:
            check_number("eps", self.eps, above=0, below=float(self.beta), hint="beta")
            if float(self.eps) < _SMALLEST_EPS * float(self.beta):
                raise ValueError(
                    f"eps={self.eps!r} is less than {_SMALLEST_EPS:g} of beta={self.beta!r}; their ratio "
                    "overflows."
                )
        if not isinstance(self.unary, (bool, np.bool_)) and not (
            isinstance(self.unary, str) and self.unary == "free"
        ):
            raise TypeError(f"unary must be True, False or 'free', got {shown(self.unary)}.")
        if not isinstance(self.sign, Real) or isinstance(self.sign, bool) or self.sign not in (-1, 1):
            raise ValueError(f"sign must be -1 (as printed) or 1 (uphill), got {shown(self.sign)}.")
        if self.theta0 == 0:
            raise ValueError(
                'theta0 must not be 0, got 0: the gradient of objective="observed" is 0 there; pass another '
                "number."
            )

    def _check_sizes(self, encoding: Encoding) -> int:
        """The number of components; raise if the table has too few columns for the parameters."""
        usable = len(np.unique(encoding.source))
        if usable < 2:
            raise ValueError(
                f"A graph needs at least two columns that vary, got {usable} among "
                f"{encoding.schema.n_columns} feature(s) "
                f"(n_features = {encoding.schema.n_columns}); constant columns do not count. Pass more "
                "columns."
            )
        p, room = encoding.p, encoding.p - int(self.skip_first)
        if self.n_components > room and self.n_components != N_COMPONENTS:
            raise ValueError(
                f"n_components must be at most {room}, got {self.n_components}: the table has p = {p} "
                "encoded columns"
                f"{', and skip_first leaves one out' if self.skip_first else ''}."
            )
        if self.n_factors is not None and self.n_factors > p:
            raise ValueError(
                f"n_factors must be at most p = {p}, the number of encoded columns, got {self.n_factors}."
            )
        return min(int(self.n_components), room)
