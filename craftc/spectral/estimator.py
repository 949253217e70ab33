"""The dependence graph of the columns of a mixed table, and features from its spectrum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import (
    MixedInput,
    all_or_nothing,
    check_overflow,
    finite_result,
    set_convergence,
    warn_not_converged,
)
from craftc._common.messages import need_pandas, shown, warn_user
from craftc._common.threads import effective_n_threads, one_blas_thread
from craftc._common.typing import Array, ColumnSelection, Floats, RandomStateInput, TableInput
from craftc._common.validation import Choice, Constraint, Flag, Number, check_number, check_parameters
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.distributed.open_input import set_input_attributes
from craftc.spectral.encoding import SHARED, Encoding, Prepared, eps_of
from craftc.spectral.factorization import Approximation, approximation_of, sample_of
from craftc.spectral.observed import ObservedGraph, given_weights
from craftc.spectral.preconditioner import GraphPreconditioner
from craftc.spectral.pseudo_likelihood import Objective, PseudoLikelihood
from craftc.spectral.solvers import SpectralFit, fit_weights
from craftc.table import MixedTable
from craftc.table.numbers import read_numbers

if TYPE_CHECKING:
    from pandas import DataFrame

LAPLACIANS = ("signed", "abs")
CONDITIONALS = ("codes", "dense")
GROUPS = ("softmax", "logistic")
UNKNOWN = ("ignore", "error")
N_COMPONENTS = 5  # the default; reduced if the table has fewer encoded columns
_ROUNDED = 10  # decimals to which entries of an eigenvector are compared
_OF_LEARNING = ("codes_", "_parameters", "objective_", "objective_path_", "n_iter_", "converged_")


def _has_density(model: GraphSpectralFeatures) -> bool:
    learned = model.graph is None and (hasattr(model, "_parameters") or not hasattr(model, "graph_"))
    if not learned or model.conditionals != "codes":
        raise AttributeError('score needs a learned graph (graph=None) and conditionals="codes".')
    return True


class GraphSpectralFeatures(MixedInput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learns a graph of dependences between the columns of a mixed table, and projects rows onto its
    smoothest eigenvectors.

    Numbers are scaled, categories become +-1 indicators, and each of these p encoded columns is modelled
    given all others. The edge weights maximise the penalised pseudo-likelihood. The features are the
    eigenvectors of the graph's Laplacian with the smallest eigenvalues: positively related columns are
    averaged, negatively related ones (signed Laplacian) subtracted.

    The main use is the graph itself (`edges`, `plot.dependence_graph`). All p components are a rotation of
    the encoded columns; a few are a summary that may or may not help a classifier.

    Parameters
    ----------
    n_components : int, default=5
        Number of features l, at most p. The default is reduced to p if there are fewer encoded columns.
    graph : array (p, p), data frame or ObservedGraph, optional
        Weights of the edges between the encoded columns, symmetric, in the order of `encoded_names_`; the
        diagonal is ignored. It replaces the learned graph: the parameters of the likelihood have no effect.
        See :func:`~craftc.spectral.observed_graph`.
    unary : bool or "free", default="free"
        Unary terms of every column. "free": linear splines, or one term per value for a numeric column with
        at most `grid_size` and at most sqrt(n) values. True: c1 x + c2 x^2. False: none.
    grid_size : int, default=32
        Nodes on either side of 0 of the grid on which the density of a numeric column is normalised.
    scaling : {"range", "normal"}, default="range"
        Numbers as they are, or the normal scores of their ranks (interpolated for new rows), which suit long
        tails. Then they are scaled to [-beta, beta].
    laplacian : {"signed", "abs"}, default="signed"
        "abs", the paper's, drops the signs of the weights: negatively related columns are averaged.
    l2 : float, default=0.1
        Ridge penalty: l2 / 2 times the sum of squared weights is added to the negative pseudo-likelihood per
        row.
    l1 : float, default=0
        Lasso penalty of the edge weights, in addition to `l2`; unary terms are left out if ``unary=True``.
    categorical : "auto", or list of names, of positions, or boolean mask
        Categorical columns; "auto": by dtype. A list of names adds to these.
    normalized : bool, default=True
        Use D^-1/2 L D^-1/2. Otherwise the first features are rare, weakly connected indicators.
    skip_first : bool, default=False
        Leave out the first eigenvector; for "abs" without `normalized` it is the plain sum of all columns.
    conditionals : {"codes", "dense"}, default="codes"
        How numeric and categorical columns enter each other's conditionals: by a code for every level, or by
        the low-rank approximation of the row ("dense", which has no joint density).
    groups : {"softmax", "logistic"}, default="softmax"
        Levels of a variable are mutually exclusive, or modelled one by one (the paper's +-1 columns).
    beta : float, default=2.0
        Largest absolute value of a scaled number, from 1e-100 to 1e100; its weight relative to the +-1
        indicators in the features.
    eps : float, optional
        0 < eps < beta; scaled numbers within eps of the mean are treated as equal. None: 0.1 beta.
    factorization : {"hals", "svd"}, default="hals"
        Source of the codes of the levels: a nonnegative factorisation of numbers and indicators, or singular
        vectors, which need no `random_state`.
    n_factors : int, optional
        Rank of the factorisation; None: min(20, max(2, p // 2)).
    indicator_weight : float, default=1.0
        Weight of squared errors in the indicators.
    missing : {"ignore", "category", "error"}, default="ignore"
        "ignore": a missing cell has no conditional, and enters no other. "category": missing categories are a
        level, and missing numbers are replaced by the mean of their column. "error": raise. In the features a
        missing cell is replaced by the mean of its column.
    unknown : {"ignore", "error"}, default="ignore"
        Treat levels not seen in `fit` as missing, or raise.
    tol : float, default=1e-4
        The fit has converged when no entry of the gradient, per row, exceeds it.
    max_iter : int, default=5000
        Maximum number of steps over all rows. 16 384 rows or more start on a sixteenth of the rows.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the nonnegative factorisation. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: print a line after the fit; 2: also a line per step.

    Attributes
    ----------
    graph_ : ndarray (p, p)
        Weights of the edges, symmetric; positive: positively related. 0 between levels of one variable,
        unless given.
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
        Eigenvectors of the Laplacian, with a positive entry of largest magnitude (the first among ties).
    spectrum_ : ndarray (p,)
        All eigenvalues.
    codes_ : ndarray (p, 2)
        Numbers by which numeric columns see an indicator that is off, and on; NaN for numeric columns. This
        and the next four exist for a learned graph only.
    objective_, objective_path_ : float, ndarray
        Negative pseudo-likelihood per row, in nats, plus penalties, at the end and after every step.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined if the input has column names.

    References
    ----------
    S. Sahoo, S. Chakraborty: Graph Spectral Feature Learning for Mixed Data of Categorical and Numerical
    Type. arXiv 2005.02817. J. Besag: Statistical Analysis of Non-Lattice Data. The Statistician 24, 1975.

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

    _reads_batches = False
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_components": Number(least=1, whole=True),
        "laplacian": Choice(LAPLACIANS),
        "conditionals": Choice(CONDITIONALS),
        "groups": Choice(GROUPS),
        "unknown": Choice(UNKNOWN),
        "l2": Number(least=0),
        "l1": Number(least=0),
        "grid_size": Number(least=2, most=200, whole=True),
        "tol": Number(above=0),
        "max_iter": Number(least=1, whole=True),
        "normalized": Flag(),
        "skip_first": Flag(),
        **SHARED,
    }
    _not_always_finite = ("codes_",)  # numeric columns have none
    _of_fit = ("random_state", "graph", "graph_", "spectrum_", "codes_", "_parameters", "objective_path_")

    def __init__(
        self,
        n_components: int = N_COMPONENTS,
        *,
        graph: ArrayLike | ObservedGraph | None = None,
        unary: bool | str = "free",
        grid_size: int = 32,
        scaling: str = "range",
        laplacian: str = "signed",
        l2: float = 0.1,
        l1: float = 0.0,
        categorical: ColumnSelection = "auto",
        normalized: bool = True,
        skip_first: bool = False,
        conditionals: str = "codes",
        groups: str = "softmax",
        beta: float = 2.0,
        eps: float | None = None,
        factorization: str = "hals",
        n_factors: int | None = None,
        indicator_weight: float = 1.0,
        missing: str = "ignore",
        unknown: str = "ignore",
        tol: float = 1e-4,
        max_iter: int = 5000,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.unary = unary
        self.grid_size = grid_size
        self.scaling = scaling
        self.laplacian = laplacian
        self.l2 = l2
        self.l1 = l1
        self.categorical = categorical
        self.normalized = normalized
        self.skip_first = skip_first
        self.conditionals = conditionals
        self.groups = groups
        self.beta = beta
        self.eps = eps
        self.factorization = factorization
        self.n_factors = n_factors
        self.indicator_weight = indicator_weight
        self.missing = missing
        self.unknown = unknown
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # ---- fitting ----

    @all_or_nothing
    def fit(self, X: TableInput, y: object = None) -> Self:
        """Learn the graph of a table, or take the given one, and find the basis of its Laplacian.

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
        few = int(self.grid_size) if self.unary == "free" else 0
        prepared = Prepared.of(X, self.categorical, self.missing, self.scaling, float(self.beta), few)
        encoding = prepared.encoding
        n_components = self._check_components(encoding)
        set_input_attributes(self, X, prepared.given)
        # small products: one BLAS thread, so that the bits do not depend on their number
        with one_blas_thread():
            if self.graph is None:
                graph = self._learned(prepared)
            else:
                graph = given_weights(self.graph, encoding.names)
                for name in _OF_LEARNING:
                    self.__dict__.pop(name, None)
            self.spectrum_, vectors = basis(laplacian(graph, self.laplacian, self.normalized))
        kept = slice(int(self.skip_first), int(self.skip_first) + n_components)
        if not graph.any() and n_components < len(graph):
            warn_user(
                "The graph has no edges, so that the features are the first of the encoded columns: lower l1 "
                "or l2, or pass a graph with edges."
            )
        self._encoding, self._scores, self.graph_ = encoding, prepared.scores, graph
        self.eigenvalues_, self.components_ = self.spectrum_[kept].copy(), vectors[kept].copy()
        self.encoded_names_ = np.array(encoding.names, dtype=object)
        self.encoded_columns_, self.n_numeric_ = encoding.source, encoding.p1
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _learned(self, prepared: Prepared) -> Floats:
        """The graph that maximises the penalised pseudo-likelihood."""
        encoding, table = prepared.encoding, prepared.table
        threads, eps = effective_n_threads(self.n_threads), eps_of(self.eps, self.beta)
        low_rank = approximation_of(
            prepared, self.factorization, self.n_factors, self.indicator_weight, self.random_state, threads
        )
        codes = low_rank.codes(encoding)
        self.codes_ = np.concatenate([np.full((encoding.p1, 2), np.nan), codes])
        seen = low_rank if self.conditionals == "dense" else None
        objective, sample = self._penalised(encoding, table, seen), None
        preconditioner = GraphPreconditioner(objective, table, eps, self.groups == "softmax")
        rows = sample_of(table)
        if rows is not None:
            sample = self._penalised(encoding, table.take(rows), seen and seen.take(rows))
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
            eps=eps_of(self.eps, self.beta),
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
            remedy = "raise max_iter," if limit else "rounding allows no better step, so raise"
            gradient = f"the largest entry of the gradient is {found.gradient:.1e} with tol={self.tol:g}"
            warn_not_converged(self, self.n_iter_, "steps", f"{gradient}: {remedy} tol or l2")

    def _print_step(self, step: int, value: float, gradient: float) -> None:
        if self.verbose > 1:
            print(f"step {step}: objective {value:.6f}, gradient {gradient:.2e}")

    # ---- the graph ----

    def edges(self, top: int | None = None) -> DataFrame:
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
        s, t = np.triu_indices(len(self.graph_), 1)
        weight = self.graph_[s, t]
        order = np.argsort(-np.abs(weight), kind="stable")[: np.count_nonzero(weight)][:top]
        names = self.encoded_names_
        columns = {"source": names[s[order]], "target": names[t[order]], "weight": weight[order]}
        columns["sign"] = np.sign(weight[order]).astype(np.int64)
        edges: DataFrame = need_pandas().DataFrame(columns)
        return edges

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score(self, X: TableInput, y: object = None) -> float:
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
        if encoding.schema.missing == "category":
            table = encoding.filled(table)
        return self._likelihood(encoding, encoding.in_range(table), None, refine=True)(self._parameters)[0]

    # ---- rows ----

    @rowwise(feature_names_out, lambda model: model._encoding.schema.dtype)
    @finite_result
    def transform(self, X: TableInput) -> Array:
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

    def inverse_transform(self, X: ArrayLike) -> DataFrame | Array:
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
        features = read_numbers(self, X, reset=None)
        if features.shape[1] != (n := len(self.components_)):
            raise ValueError(
                f"inverse_transform needs {n} features for every row, got shape {features.shape}."
            )
        encoding = self._encoding
        mean = encoding.mean
        with np.errstate(over="ignore", invalid="ignore"):
            columns = encoding.decode(mean + (features - mean @ self.components_.T) @ self.components_)
        for j in encoding.schema.numeric_index:
            check_overflow(f"{type(self).__name__}.inverse_transform", columns[j])
        if self._scores is not None:
            for j, recipe in zip(encoding.schema.numeric_index, self._scores.recipes, strict=True):
                columns[j] = recipe.undo(columns[j]).astype(encoding.schema.dtype)
        if not encoding.schema.named and not len(encoding.schema.categorical_index):
            return np.column_stack(columns)
        named = dict(zip(encoding.schema.columns, columns, strict=True))
        rows: DataFrame = need_pandas().DataFrame(named)
        return rows

    def _new_rows(self, X: TableInput) -> MixedTable:
        check_is_fitted(self)
        table = self._encoding.schema.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)
        return table if self._scores is None else self._scores.apply(table)

    # ---- checks ----

    def _check_parameters(self) -> None:
        check_parameters(self)
        eps_of(self.eps, self.beta)
        free = isinstance(self.unary, str) and self.unary == "free"
        if not (free or isinstance(self.unary, (bool, np.bool_))):
            raise TypeError(f"unary must be True, False or 'free', got {shown(self.unary)}.")

    def _check_components(self, encoding: Encoding) -> int:
        """The number of components; raise if the table has fewer encoded columns."""
        p, room = encoding.p, encoding.p - int(self.skip_first)
        if self.n_components > room and self.n_components != N_COMPONENTS:
            raise ValueError(
                f"n_components must be at most {room}, got {self.n_components}: the table has p = {p} "
                f"encoded columns{', and skip_first leaves one out' if self.skip_first else ''}."
            )
        return min(int(self.n_components), room)


def laplacian(graph: Floats, kind: str, normalized: bool) -> Floats:
    """D - graph ("signed") or D - |graph| ("abs"), D the row sums of |graph|; normalized: D^-1/2 . D^-1/2."""
    weight = np.abs(graph)
    degree = weight.sum(axis=1)
    L = np.diag(degree) - (graph if kind == "signed" else weight)
    if not normalized:
        return np.asarray(L)
    root = np.where(degree > 0.0, 1.0 / np.sqrt(np.where(degree > 0.0, degree, 1.0)), 0.0)
    return np.asarray(root[:, None] * L * root)


def basis(L: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, ascending, and eigenvectors as rows, whose (first) largest entry is positive."""
    values, vectors = np.linalg.eigh(L)
    rows = np.ascontiguousarray(vectors.T)
    leading = np.abs(rows).round(_ROUNDED).argmax(axis=1)
    rows *= np.sign(rows[np.arange(len(rows)), leading])[:, None]
    return np.maximum(values, 0.0), rows
