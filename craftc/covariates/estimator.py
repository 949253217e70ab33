"""Groups of covariates for a classifier by convex clustering, every optimum certified."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from craftc._common.labels import canonical
from craftc._common.optional import need_pandas
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats, Labels
from craftc._common.validation import check_choice, check_number, check_penalties
from craftc._fusion.datafits import Loss, column_sums
from craftc._fusion.graph import graph_of
from craftc._fusion.path import Solution, Walker
from craftc._fusion.problem import Graph, components, ground_last, grounded
from craftc.covariates.evidence import Fit, carried, log_evidence, map_fit, sigma_by_folds

SOLVERS = ("certified", "admm", "paper")
SELECTIONS = ("evidence", "evidence-full", "evidence-accuracy")
GRID = 300  # penalties of the default path, n 2^(-0.1 a)
_SEPARATED = 1e-3  # of the loss of guessing: a model that loses less separates the classes
_LARGE, _FEW = 10**6, 0.1  # cells of a table, of which so few are not zero, that are kept sparse
_ALONE = 3  # penalties in a row at which every covariate is alone end a path
_FOLD_CLUSTERS = 200  # clusters at most of the partition that sigma is chosen on


class PathPoint(NamedTuple):
    """An optimum on the path."""

    fusion_penalty: float
    n_clusters: int
    labels: Labels
    objective: float
    gap: float  # duality gap, relative to the dual bound
    evidence: float  # ln evidence of the clustering; nan where there is one penalty only
    coefficients: Floats  # (n_clusters, c) of the optimum


class ConvexCovariateClustering(TransformerMixin, ClassifierMixin, BaseEstimator):
    """A multinomial classifier whose covariates are grouped: similar ones share their coefficients exactly.

    Minimises, over B (c, d) with columns b_i and a free intercept, the multinomial loss + ``ridge |B|^2 + nu sum_{i<j} S_ij |b_i - b_j|
    + gamma sum_i |b_i|``. The problem is convex, and a duality gap certifies its optimum. Along a path of penalties nu the clustering is
    chosen under which the classes are most probable.

    Parameters
    ----------
    fusion_penalty : float or array, optional
        nu. A number: one fit. A decreasing array: a path. None: the path n 2^(-0.1 a), a = 0, 1, ..., 299, which ends where every
        covariate has been alone three times.
    similarity : {"correlation", "knn"}, array or sparse array (d, d), or callable, optional
        S, symmetric, >= 0; 0 is no edge, the diagonal is ignored. "correlation" (None means that too): the positive correlations of
        each covariate with its eight nearest. "knn": a Gaussian similarity of each standardised column and its eight nearest. A
        callable gets X. For vectors that describe covariates see :func:`~craftc.covariates.knn_similarity`.
    ridge : float, default=0.1
        0 is the paper's own problem: it has no certificate, and no optimum where the fused model separates the classes (as on the data
        of the paper's experiment), of which a warning tells. The gap is then an estimate: what the objective could fall by if the
        optimum were no larger than the solution.
    sparsity : float, default=0.0
        gamma: covariates of no use get coefficients of exactly zero and form one cluster.
    solver : {"certified", "admm", "paper"}, default="certified"
        "certified": coarsen, solve, certify, split: the optimum on clusters, and flows inside them that prove they hold together.
        "admm": the paper's iteration on all covariates with one vector per edge, penalties weighted by S and balanced as it goes,
        over-relaxed, until the gap is small. "paper": the paper's iteration and its stopping rule, word for word; its gap is what it is.
        All end with the merge test: covariates whose edges did not tear are fused, if the optimum allows it.
    selection : {"evidence", "evidence-full", "evidence-accuracy"}, default="evidence"
        How a point of the path is chosen: Laplace's evidence with the diagonal of the Hessian, or with all of it; "evidence-accuracy":
        the prior's sigma by accuracy, as in the paper, in place of held-out log-probability.
    tol : float, default=1e-6
        Relative duality gap.
    max_iter : int, default=10000
        At most so many Newton steps of a whole path; of "admm" and "paper" iterations at every penalty.
    n_threads : int, optional
        For passes over many edges (hundreds of thousands); the matrices of the other steps are small. The result does not depend on it.
    verbose : int, default=0
        1: a line per penalty.

    Attributes
    ----------
    covariate_labels_ : ndarray (d,) of int32
        Cluster of every covariate, numbered by first appearance.
    n_clusters_ : int
    coef_ : ndarray (c, d) of float64
    intercept_ : ndarray (c,) of float64
        Their sums over the classes are zero; columns of one cluster are equal to the last bit. One penalty: the optimum. A path: the
        MAP fit on the chosen clustering, whose evidence chose it.
    fusion_penalty_ : float
        nu of the solution.
    objective_, duality_gap_ : float
        Of the convex problem there; the gap is relative to the dual bound.
    sigma_ : float
        Standard deviation of the coefficients' prior in the evidence (paths).
    best_ : PathPoint
        The point of the path that was chosen, a named tuple of what `path_` has per nu.
    path_ : pandas.DataFrame
        Per nu: fusion_penalty, n_clusters, labels (d,), objective, gap, evidence, coefficients (n_clusters, c).
    classes_ : ndarray (c,)
    n_iter_ : int
        Newton steps and iterations of the whole path.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

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

    def __init__(
        self,
        fusion_penalty: float | ArrayLike | None = None,
        *,
        similarity: Any = None,
        ridge: float = 0.1,
        sparsity: float = 0.0,
        solver: str = "certified",
        selection: str = "evidence",
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
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConvexCovariateClustering:
        """Group the covariates.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d) of finite numbers
            Taken as it is: scale covariates whose units differ. Sparse ones (counts of words) stay so.
        y : array (n,)
            Classes, at least two.

        Returns
        -------
        ConvexCovariateClustering
            Itself.
        """
        self._check_parameters()
        rows, target = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        check_classification_targets(target)
        self.classes_, codes = np.unique(target, return_inverse=True)
        c = len(self.classes_)
        if c < 2:
            raise ValueError(f"y must hold at least two classes, got one class: {self.classes_[0]!r}. There is nothing to tell apart.")
        penalties = self._penalties(rows.shape[0])
        graph = graph_of(self.similarity, rows, float(self.sparsity))
        loss = Loss(codes, c)
        if not issparse(rows) and rows.size > _LARGE and np.count_nonzero(rows) < _FEW * rows.size:
            rows = csr_array(rows)
        # products of small matrices: more threads would cost more than they save, and change the last bits
        with threadpool_limits(1, "blas"):
            walker = Walker(rows, loss, graph, float(self.ridge), float(self.tol), int(self.max_iter), self.solver,
                            effective_n_threads(self.n_threads))  # fmt: skip
            if self.ridge == 0:
                self._warn_of_separation(rows, loss, graph)
            solutions = self._walk(walker, penalties)
            # of every optimum the clusters by first appearance, that of zero coefficients (of the ground, in the last place) behind them
            parts = [ground_last(canonical(solution.label)) for solution in solutions]
            scores, fit = np.full(1, np.nan), None
            if len(penalties) > 1:
                scores, fit = self._scores(rows, loss, parts)
        self.n_iter_ = max(1, walker.newton_steps + walker.iterations)
        labels = [canonical(part[:-1]) for part in parts]
        self._points = [
            PathPoint(s.nu, int(label.max()) + 1, label, s.objective, s.relative_gap, float(score), self._of_clusters(s, label, loss))
            for s, label, score in zip(solutions, labels, scores, strict=True)
        ]
        chosen = 0 if fit is None else int(np.argmax(scores))
        self._set_state(loss, solutions[chosen], parts[chosen], self._points[chosen], fit)
        return self

    @staticmethod
    def _of_clusters(solution: Solution, label: Labels, loss: Loss) -> Floats:
        """(K, c) coefficients of the clusters of an optimum."""
        _, first = np.unique(label, return_index=True)
        return np.asarray(solution.columns()[first] @ loss.basis.T)

    def _walk(self, walker: Walker, penalties: Floats) -> list[Solution]:
        """Optima along the path; the default path ends where all covariates have been alone three times."""
        solutions: list[Solution] = []
        alone = 0
        for nu in penalties:
            solution = walker.step(float(nu))
            solutions.append(solution)
            clusters = len(np.unique(solution.label[:-1]))
            if self.verbose:
                print(f"nu {nu:.6g}: {clusters} clusters, J {solution.objective:.6g}, relative gap {solution.relative_gap:.1e}")
            alone = alone + 1 if clusters == walker.graph.d else 0
            if self.fusion_penalty is None and alone == _ALONE:
                break
        worst = max(solution.relative_gap for solution in solutions)
        if walker.paper.exhausted if self.solver == "paper" else worst > self.tol:
            warnings.warn(
                f"ConvexCovariateClustering did not reach every optimum: the largest relative gap is {worst:.1e}, tol={self.tol:g}. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return solutions

    def _warn_of_separation(self, X: Any, loss: Loss, graph: Graph) -> None:
        """Without a ridge, classes that sums over the components of S tell apart have no best coefficients."""
        label = components(graph)
        fused = map_fit(column_sums(X, label[:-1], int(label[-1])), loss, np.inf)
        if fused.value < _SEPARATED * len(loss.y) * np.log(loss.c):
            warnings.warn(
                "ridge=0, and the classes are told apart even by the sums of fused covariates: coefficients can grow without end and the "
                "optimum may not exist. What is returned is where the solver stopped; give ridge > 0 for an optimum.",
                UserWarning,
                stacklevel=3,
            )

    def _scores(self, X: Any, loss: Loss, parts: list[Labels]) -> tuple[Floats, Fit]:
        """ln evidence of every clustering, each distinct one scored once, and the MAP fit of the best. Zero coefficients stay zero."""
        sizes = [int(part[-1]) for part in parts]
        fine = max((m for m in sizes if m <= _FOLD_CLUSTERS), default=min(sizes))
        finest = column_sums(X, parts[sizes.index(fine)][:-1], fine)
        self.sigma_ = sigma_by_folds(finest, loss.y, loss.c, self.selection == "evidence-accuracy")
        known: dict[bytes, tuple[float, Fit]] = {}
        start, before = None, parts[0]
        for part, m in zip(parts, sizes, strict=True):
            if part.tobytes() not in known:
                columns = column_sums(X, part[:-1], m)
                fit = map_fit(columns, loss, self.sigma_, None if start is None else carried(start, before, part))
                start, before = fit.theta, part
                known[part.tobytes()] = log_evidence(columns, loss, fit, self.sigma_, self.selection == "evidence-full"), fit
        scores = np.array([known[part.tobytes()][0] for part in parts])
        return scores, known[parts[int(np.argmax(scores))].tobytes()][1]

    def _set_state(self, loss: Loss, solution: Solution, part: Labels, point: PathPoint, fit: Fit | None) -> None:
        self.best_ = point
        self.covariate_labels_, self.n_clusters_ = point.labels, point.n_clusters
        self.fusion_penalty_, self.objective_, self.duality_gap_ = point.fusion_penalty, point.objective, point.gap
        theta = solution.theta if fit is None else fit.theta
        columns = solution.columns() if fit is None else grounded(theta[:-1])[part[:-1]]
        # one product per cluster, then copies: BLAS need not give equal columns equal bits
        _, first = np.unique(point.labels, return_index=True)
        self.coef_ = np.ascontiguousarray((loss.basis @ columns[first].T)[:, point.labels])
        self.intercept_ = loss.basis @ theta[-1]

    # ---- rows ----

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d)

        Returns
        -------
        ndarray (n, c)
            Of two classes (n,): that of the second less that of the first.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = rows @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d)

        Returns
        -------
        ndarray (n, c)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of every row.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d)

        Returns
        -------
        ndarray (n,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def transform(self, X: ArrayLike) -> Any:
        """Sums of the covariates of every cluster.

        Parameters
        ----------
        X : array, data frame or sparse array (n, d)

        Returns
        -------
        ndarray (n, K)
            Of sparse rows a csr_array.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        sums = column_sums(rows, self.covariate_labels_, self.n_clusters_)[:, :-1]
        return csr_array(sums) if issparse(rows) else sums

    @property
    def path_(self) -> Any:
        """The path as a frame."""
        check_is_fitted(self, "_points")
        return need_pandas().DataFrame(self._points)

    # ---- parameters ----

    def _penalties(self, n: int) -> Floats:
        if self.fusion_penalty is None:
            return np.asarray(n * 2.0 ** (-0.1 * np.arange(GRID)))
        return check_penalties(self.fusion_penalty)

    def _check_parameters(self) -> None:
        check_number("ridge", self.ridge, least=0)
        check_number("sparsity", self.sparsity, least=0)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("selection", self.selection, SELECTIONS)
        check_number("tol", self.tol, above=0)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("verbose", self.verbose, least=0, whole=True)
        effective_n_threads(self.n_threads)
