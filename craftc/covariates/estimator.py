"""Convex clustering of covariates for classification, with certified optima."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import all_or_nothing, column_names
from craftc._common.labels import canonical
from craftc._common.messages import need_pandas, warn_user
from craftc._common.products import row_products
from craftc._common.ranges import column_ranges, warn_of_unscaled_columns
from craftc._common.threads import effective_n_threads, one_blas_thread
from craftc._common.typing import Array, Bits, Floats, Labels, WeightInput
from craftc._common.validation import (
    Choice,
    Constraint,
    Number,
    check_parameters,
    check_penalties,
    check_ranges,
    check_weight,
)
from craftc._fusion.datafits import Matrix, Multinomial, column_sums
from craftc._fusion.graph import Graph, components, with_zero_node, zero_node_last
from craftc._fusion.path import Optimum, RegularizationPath, follow
from craftc.covariates.evidence import MapFit, carried, log_evidence, map_fit, sigma_by_folds
from craftc.covariates.rows import Covariates, filled, missing_cells, present_means
from craftc.covariates.similarity import Similarity, graph_of, zero_graph
from craftc.distributed.collections import feature_names_out, rowwise
from craftc.table.numbers import read_numbers, read_with_target

if TYPE_CHECKING:
    from pandas import DataFrame
    from sklearn.utils import Tags

SOLVERS = ("certified", "admm", "paper")
SELECTIONS = ("evidence", "evidence-full")
MISSING = ("error", "mean")
GRID = 300  # penalties of the default path, n 2^(-0.1 a)
_SEPARATED = 1e-3  # loss, relative to that of guessing, below which a model separates the classes
_ALONE = 3  # consecutive penalties with every covariate alone that end the default path
_FOLD_CLUSTERS = 200  # most clusters of the partition on which sigma is chosen
_LARGEST = 1e45  # largest absolute value of X: the products of Newton steps have sixth powers


class PathPoint(NamedTuple):
    """An optimum on the path."""

    fusion_penalty: float
    n_clusters: int
    labels: Labels
    objective: float
    gap: float  # duality gap, relative to the dual bound
    evidence: float  # ln evidence of the clustering; nan where there is one penalty only
    coefficients: Floats  # (n_clusters, c) of the optimum


class SelectionPoint(NamedTuple):
    """An optimum on the path of the group lasso."""

    sparsity: float
    n_covariates: int  # not zero
    objective: float
    gap: float
    evidence: float  # ln evidence of these covariates, each with a coefficient of its own


class ConvexCovariateClustering(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """Convex clustering of covariates: a multinomial classifier in which similar covariates share exactly
    equal coefficients.

    Minimises, over B (c, d) with columns b_i and a free intercept, the multinomial loss + ``ridge |B|^2 + nu
    sum_{i<j} S_ij |b_i - b_j| + gamma sum_i |b_i|``. The problem is convex, and a duality gap certifies the
    optimum. Along a regularization path of penalties nu, the clustering with the largest evidence is chosen.

    Parameters
    ----------
    fusion_penalty : float or array, optional
        nu. A number: one fit. A decreasing array: a path. None: the path n 2^(-0.1 a), a = 0, 1, ..., 299,
        which ends when every covariate is a cluster of its own at three consecutive penalties; n is the
        number of rows, or the sum of their weights.
    similarity : {"correlation", "knn"}, array or sparse array (d, d), or callable, optional
        S, symmetric, >= 0; 0 is no edge, and the diagonal is ignored. "correlation" (the default): the
        positive correlations of each covariate with its eight nearest neighbours. "knn": a Gaussian
        similarity of each standardised column and its eight nearest neighbours. A callable receives X. For
        vectors that describe covariates see :func:`~craftc.covariates.knn_similarity`.
    ridge : float, default=0.1
        Weight of ``|B|^2``. 0 is the paper's own problem. It has no certificate, and no optimum if the fused
        model separates the classes (as in the paper's experiment); a warning reports that. The gap is then an
        estimate: how far the objective can fall if the optimum is no larger than the solution, relative to at
        least a thousandth of the loss of guessing, n log c. The descent ends there, at coefficients that are
        finite.
    sparsity : float or array, default=0.0
        gamma, the weight of a group lasso: irrelevant covariates get coefficients of exactly zero and form
        one cluster. A decreasing array, such as the paper's ``2.0 ** -np.arange(30)``: selection before
        clustering. The optima without fusion are found for all values, the covariates of the value of largest
        evidence are selected, and only these are clustered, without a group lasso.
    solver : {"certified", "admm", "paper"}, default="certified"
        "certified": coarsen, solve, certify, split. It finds the optimum on clusters, and flows inside them
        that prove they are fused. "admm": the paper's ADMM on all covariates with one vector per edge,
        over-relaxed, with penalties weighted by S and balanced, until the duality gap is small. Both end with
        a merge test: covariates whose edges stayed fused become one cluster if the objective does not
        increase. "paper": the paper's ADMM with its own stopping rule, which does not bound the gap, and its
        own flags: covariates are one cluster where z_ij = z_ji, and get the mean of their coefficients.
    selection : {"evidence", "evidence-full"}, default="evidence"
        Criterion that selects a point of the path: Laplace's approximation of the evidence with the diagonal
        of the Hessian, or with the full Hessian. The prior's sigma maximises the cross-validated
        log-probability on the finest clustering of the path with at most 200 clusters.
    tol : float, default=1e-6
        Relative duality gap.
    missing : {"error", "mean"}, default="error"
        Missing cells (NaN): they are an error; or each becomes the mean of the cells of its column that are
        present in `fit`, in new rows, too.
    max_iter : int, default=10000
        Maximum number of Newton steps of the whole path; of "admm" and "paper", of iterations at every
        penalty.
    n_threads : int, optional
        Threads of the passes over edges, from hundreds of thousands of edges on, of those over sparse tables
        of five and more classes, and of the folds that choose sigma. The result does not depend on it.
    verbose : int, default=0
        1: print a line per penalty.

    Attributes
    ----------
    covariate_labels_ : ndarray (d,) of int32
        Cluster of every covariate, numbered by first appearance.
    n_clusters_ : int
    coef_ : ndarray (c, d) of float64
    intercept_ : ndarray (c,) of float64
        Both sum to zero over the classes; columns of one cluster are bit-identical. One penalty: the optimum.
        A path: the MAP estimate on the chosen clustering.
    fusion_penalty_ : float
        nu of the solution.
    objective_, duality_gap_ : float
        Objective of the convex problem at that penalty, and its duality gap relative to the dual bound.
    sigma_ : float
        Standard deviation of the coefficients' prior in the evidence (paths only).
    sparsity_ : float
        gamma of the solution, or of the selection.
    sparsity_path_ : pandas.DataFrame
        Only for an array `sparsity`. Per gamma: sparsity, n_covariates (not zero), objective, gap, evidence.
    best_ : PathPoint
        The chosen point of the path, a named tuple with the columns of `path_`.
    path_ : pandas.DataFrame
        Per nu: fusion_penalty, n_clusters, labels (d,), objective, gap, evidence, coefficients (n_clusters,
        c).
    classes_ : ndarray (c,)
    n_iter_ : int
        Newton steps and iterations of the whole path.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined if the input has column names.

    References
    ----------
    D. Andrade, K. Fukumizu, Y. Okajima: Convex Covariate Clustering for Classification. arXiv:1903.01680.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import ConvexCovariateClustering
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 4)) + np.array([[0, 0, 0, 0], [2, 2, 0, 0]])[y]
    >>> model = ConvexCovariateClustering(5.0, similarity=np.ones((4, 4))).fit(X, y)
    >>> model.covariate_labels_.tolist()
    [0, 0, 1, 1]
    """

    _reads_batches = False
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "ridge": Number(least=0),
        "solver": Choice(SOLVERS),
        "selection": Choice(SELECTIONS),
        "missing": Choice(MISSING),
        "tol": Number(above=0, most=1.0),
        "max_iter": Number(least=1, whole=True),
    }
    _of_fit = ("similarity", "best_", "_points", "_selection_points")  # of the path, not of the rows

    def __init__(
        self,
        fusion_penalty: float | ArrayLike | None = None,
        *,
        similarity: Similarity | None = None,
        ridge: float = 0.1,
        sparsity: float | ArrayLike = 0.0,
        solver: str = "certified",
        selection: str = "evidence",
        missing: str = "error",
        tol: float = 1e-6,
        max_iter: int = 10000,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.fusion_penalty = fusion_penalty
        self.similarity = similarity
        self.ridge = ridge
        self.sparsity = sparsity
        self.solver = solver
        self.selection = selection
        self.missing = missing
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: WeightInput = None) -> Self:
        """Cluster the covariates and fit the classifier.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d) of finite numbers
            Used without scaling: scale covariates whose units differ. Sparse input (word counts) stays
            sparse.
        y : array (n,)
            Classes, at least two.
        sample_weight : array (n,), optional
            Weight >= 0 of every row in the loss, the evidence and the built-in similarities. Weight 2 counts
            as the row twice, 0 as none.

        Returns
        -------
        ConvexCovariateClustering
            The fitted estimator.
        """
        self._check_parameters()
        cells, target = read_with_target(self, X, y, accept_sparse="csr", allow_nan=True)
        weight = check_weight(sample_weight, cells.shape[0])
        if weight is not None:
            cells, target, weight = cells[weight > 0], target[weight > 0], weight[weight > 0]
            weight = None if bool((weight == 1.0).all()) else weight
        self._means = present_means(cells, weight)
        rows = self._complete(cells)
        check_ranges(*column_ranges(rows), column_names(self), largest=_LARGEST, narrowest=1.0 / _LARGEST)
        if isinstance(rows, np.ndarray):
            warn_of_unscaled_columns(self, rows)
        check_classification_targets(target)
        classes, codes = np.unique(target, return_inverse=True)
        c = len(classes)
        if c < 2:
            found = f"got one class: {classes.tolist()[0]!r}; a classifier needs two."
            raise ValueError(f"y must hold at least two classes, {found}")
        total = float(len(codes) if weight is None else weight.sum())
        penalties = self._penalties(total)
        gammas = check_penalties(self.sparsity, "sparsity")
        least = 1e-12 if self.ridge > 0 else _SEPARATED * total * float(np.log(c))
        datafit = Multinomial(codes, c, least, effective_n_threads(self.n_threads), weight)
        gamma, selected, n_iter = float(gammas[0]), np.ones(rows.shape[1], bool), 0
        self._selection_points: list[SelectionPoint] = []
        # products of small matrices: more BLAS threads would cost time and change the last bits
        with one_blas_thread():
            if len(gammas) > 1:
                gamma, selected, n_iter = self._select(
                    Covariates.of(rows, self.solver, weight), datafit, gammas
                )
                rows = rows[:, selected]
            graph = graph_of(self.similarity, rows, gamma if len(gammas) == 1 else 0.0, selected, weight)
            covariates = Covariates.of(rows, self.solver, weight)
            path = self._regularization_path(covariates.centred, datafit, graph)
            if self.ridge == 0:
                self._warn_of_separation(covariates.centred, datafit, graph)
            optima = follow(
                path, penalties, partial(self._ends, graph.d), verbose=self.verbose, estimator=self
            )
            parts = _parts(optima)
            scores, fit = np.full(1, np.nan), None
            if len(penalties) > 1:
                scores, fit = self._scores(covariates, datafit, parts)
        parts = [_among_all(part, selected) for part in parts]
        optima = [optimum._replace(label=_among_all(optimum.label, selected)) for optimum in optima]
        self.sparsity_ = gamma
        self.classes_, self.n_iter_ = classes, max(1, n_iter + path.n_iter)
        labels = [canonical(part[:-1]) for part in parts]
        self._points = []
        for o, label, score in zip(optima, labels, scores.tolist(), strict=True):
            K, coefficients = int(label.max()) + 1, _coefficients(o, label, datafit)
            self._points.append(PathPoint(o.nu, K, label, o.objective, o.relative_gap, score, coefficients))
        chosen = 0 if fit is None else int(np.argmax(scores))
        self._set_state(datafit, optima[chosen], parts[chosen], self._points[chosen], fit)
        # no BLAS: bits do not depend on its threads
        self.intercept_ -= np.einsum("cd,d->c", self.coef_[:, selected], covariates.centre)
        return self

    def _ends(self, d: int, counts: list[int]) -> bool:
        """Whether a path with these numbers of clusters is complete."""
        return self.fusion_penalty is None and counts[-_ALONE:] == [d] * _ALONE

    def _regularization_path(self, X: Matrix, datafit: Multinomial, graph: Graph) -> RegularizationPath:
        ridge, tol, max_iter = float(self.ridge), float(self.tol), int(self.max_iter)
        threads = effective_n_threads(self.n_threads)
        return RegularizationPath(X, datafit, graph, ridge, tol, max_iter, self.solver, threads)

    def _select(
        self, covariates: Covariates, datafit: Multinomial, gammas: Floats
    ) -> tuple[float, Bits, int]:
        """The gamma of largest evidence that selects a covariate, the selected ones (d,), the iterations."""
        path = self._regularization_path(covariates.centred, datafit, zero_graph(len(covariates.centre)))
        optima = follow(
            path, gammas, lambda counts: False, verbose=self.verbose, estimator=self, name="sparsity"
        )
        parts = _parts(optima)
        counts = np.array([int(part[-1]) for part in parts])
        if not counts.any():
            raise ValueError(
                f"No covariate has a coefficient at sparsity={gammas[-1]:.6g}, the smallest value; continue "
                "to smaller ones."
            )
        scores = self._scores(covariates, datafit, parts)[0]
        self._selection_points = [
            SelectionPoint(o.nu, int(count), o.objective, o.relative_gap, float(score))
            for o, count, score in zip(optima, counts, scores, strict=True)
        ]
        chosen = int(np.where(counts > 0, scores, -np.inf).argmax())
        part = parts[chosen]
        return float(gammas[chosen]), part[:-1] < part[-1], path.n_iter

    def _warn_of_separation(self, X: Matrix, datafit: Multinomial, graph: Graph) -> None:
        """Without a ridge there is no optimum if sums over the components of S separate the classes."""
        label = components(graph)
        fused = map_fit(column_sums(X, label[:-1], int(label[-1])), datafit, np.inf)
        if fused.value < _SEPARATED * datafit.total * np.log(datafit.c):
            warn_user(
                "The classes are linearly separable even after fusing all covariates, so with ridge=0 the "
                "optimum may not exist; set ridge > 0."
            )

    def _scores(
        self, covariates: Covariates, datafit: Multinomial, parts: list[Labels]
    ) -> tuple[Floats, MapFit]:
        """ln evidence of every clustering, zeros kept, and the MAP fit of the best; each is scored once."""
        sizes = [int(part[-1]) for part in parts]
        fine = max((m for m in sizes if m <= _FOLD_CLUSTERS), default=min(sizes))
        finest = column_sums(covariates.centred, parts[sizes.index(fine)][:-1], fine)
        self.sigma_ = sigma_by_folds(finest, datafit.y, datafit.c, datafit.n_threads, datafit.weight)
        known: dict[bytes, tuple[float, MapFit]] = {}
        start, before = None, parts[0]
        for part, m in zip(parts, sizes, strict=True):
            if part.tobytes() not in known:
                columns = column_sums(covariates.centred, part[:-1], m)
                start = None if start is None else carried(start, before, part)
                fit = map_fit(columns, datafit, self.sigma_, start)
                start, before = fit.theta, part
                if covariates.given is not covariates.centred:
                    columns = column_sums(covariates.given, part[:-1], m)
                score = log_evidence(columns, datafit, fit, self.sigma_, self.selection == "evidence-full")
                known[part.tobytes()] = score, fit
        scores = np.array([known[part.tobytes()][0] for part in parts])
        return scores, known[parts[int(np.argmax(scores))].tobytes()][1]

    def _set_state(
        self, datafit: Multinomial, optimum: Optimum, part: Labels, point: PathPoint, fit: MapFit | None
    ) -> None:
        self.best_ = point
        self.covariate_labels_, self.n_clusters_ = point.labels, point.n_clusters
        self.fusion_penalty_, self.objective_ = point.fusion_penalty, point.objective
        self.duality_gap_ = point.gap
        theta = optimum.theta if fit is None else fit.theta
        columns = optimum.columns() if fit is None else with_zero_node(theta[:-1])[part[:-1]]
        # one product per cluster, then copies: BLAS does not guarantee equal bits for equal columns
        _, first = np.unique(point.labels, return_index=True)
        self.coef_ = np.ascontiguousarray((datafit.basis @ columns[first].T)[:, point.labels])
        self.intercept_ = datafit.basis @ theta[-1]

    # ---- rows ----

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "mean"
        return tags

    def _complete(self, rows: Matrix) -> Matrix:
        """Rows with the means of the fit in place of missing cells."""
        missing = missing_cells(rows)
        if missing is None:
            return rows
        if self.missing == "error":
            raise ValueError(
                f"Input X contains NaN: {int(missing.sum())} missing cell(s); pass missing='mean', which "
                "puts the mean of the column into each, or impute them first."
            )
        if np.isnan(self._means).any():
            name = column_names(self)[int(np.isnan(self._means).argmax())]
            raise ValueError(f"Column {name!r} has no value, and so no mean to put into its cells; drop it.")
        return filled(rows, self._means)

    def _read_new(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        return self._complete(read_numbers(self, X, reset=False, accept_sparse="csr", allow_nan=True))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d)

        Returns
        -------
        ndarray (n, c)
            With two classes (n,): the score of the second less that of the first.
        """
        rows = self._read_new(X)
        scores = row_products(rows, self.coef_.T) + self.intercept_
        return np.asarray(scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores)

    @rowwise(lambda model: model.classes_, "float64")
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array, data frame, sparse array (n, d) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, c)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return np.asarray(softmax(scores, axis=1))

    @rowwise("class", lambda model: model.classes_)
    def predict(self, X: ArrayLike) -> Array:
        """The most probable class of every row.

        Parameters
        ----------
        X : array, data frame, sparse array (n, d) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @rowwise(feature_names_out, "float64")
    def transform(self, X: ArrayLike) -> Floats | csr_array:
        """Sums of the covariates of every cluster.

        Parameters
        ----------
        X : array, data frame, sparse array (n, d) or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K)
            A csr_array if X is sparse.
        """
        rows = self._read_new(X)
        sums = column_sums(rows, self.covariate_labels_, self.n_clusters_)[:, :-1]
        return csr_array(sums) if issparse(rows) else sums

    @property
    def path_(self) -> DataFrame:
        """The regularization path as a frame."""
        check_is_fitted(self, "_points")
        path: DataFrame = need_pandas().DataFrame(self._points)
        return path

    @property
    def sparsity_path_(self) -> DataFrame:
        """The path of the selection as a frame."""
        check_is_fitted(self, "_points")
        if not self._selection_points:
            raise AttributeError(
                "sparsity_path_ exists only where sparsity is an array, which selects covariates before "
                "clustering."
            )
        path: DataFrame = need_pandas().DataFrame(self._selection_points)
        return path

    # ---- parameters ----

    def _penalties(self, total: float) -> Floats:
        if self.fusion_penalty is None:
            return np.asarray(total * 2.0 ** (-0.1 * np.arange(GRID)))
        return check_penalties(self.fusion_penalty)

    def _check_parameters(self) -> None:
        check_parameters(self)
        effective_n_threads(self.n_threads)


def _parts(optima: list[Optimum]) -> list[Labels]:
    """(d + 1,) clusters of every optimum by first appearance, the zero node's cluster last.

    Consecutive optima on the same partition share its labels, and then their clusters.
    """
    parts: list[Labels] = []
    for k, optimum in enumerate(optima):
        same = k > 0 and optimum.label is optima[k - 1].label
        parts.append(parts[-1] if same else zero_node_last(canonical(optimum.label)))
    return parts


def _among_all(label: Labels, selected: Bits) -> Labels:
    """Labels (d + 1,) of all covariates and the zero node; unselected ones join the zero node's cluster."""
    out = np.full(len(selected) + 1, label[-1], label.dtype)
    out[:-1][selected] = label[:-1]
    return out


def _coefficients(optimum: Optimum, label: Labels, datafit: Multinomial) -> Floats:
    """(K, c) coefficients of the clusters of an optimum."""
    _, first = np.unique(label, return_index=True)
    return np.asarray(optimum.columns()[first] @ datafit.basis.T)
