"""Convex clustering of rows: the classic baseline, with certified optima along a whole path."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from craftc._covariates_graph import NEIGHBOURS, edges_of, knn_similarity
from craftc._covariates_loss import Squares
from craftc._covariates_path import Solution, Walker
from craftc._covariates_reduced import Graph, components, lengths
from craftc._dpmeans_penalty import ROWS_PER_CLUSTER, description_length
from craftc._labels import Labels, canonical
from craftc._moments import Floats
from craftc._parallel import effective_n_threads
from craftc._summary import need_pandas
from craftc._validation import check_choice, check_number, check_penalties

__all__ = ["ConvexClustering"]

SOLVERS = ("certified", "ama", "admm")
GRID = 200  # penalties of the default path at most
_STEP = 2.0**-0.2  # from one to the next


class RowsPoint(NamedTuple):
    """An optimum on the path."""

    fusion_penalty: float
    n_clusters: int
    labels: Labels
    objective: float
    gap: float  # duality gap, relative to the dual bound


class ConvexClustering(ClusterMixin, BaseEstimator):
    """Clusters of rows by convex clustering: every row has a centre of its own, and a penalty fuses the centres of near rows.

    Minimises over U (n, D), with a row u_i for every row p_i, 1/2 sum_i |p_i - u_i|^2 + g sum_{i<j} w_ij |u_i - u_j|; rows whose u_i are
    equal are a cluster. There is one optimum, no start to choose, and a duality gap certifies it.

    Parameters
    ----------
    fusion_penalty : float or array, optional
        g. A number: one fit. A decreasing array: a path. None: a path from the penalty that fuses whatever the weights connect,
        downwards, as far as the choice of the clustering needs.
    n_clusters : int, optional
        Of a path the first point with at least so many clusters is taken. None: the one that tells the rows in fewest nats by spherical
        clusters of one variance (BIC of the classification likelihood, up to a cluster for five rows).
    weights : {"gaussian-knn"}, array or sparse array (n, n), or callable, default="gaussian-knn"
        w, symmetric, >= 0; 0 is no edge, and rows without a path of edges between them are never fused. "gaussian-knn":
        exp(-|p_i - p_j|^2 / (2 s^2)) where one row is among the nearest of the other, s the median distance to the last of these. A
        callable gets X.
    n_neighbors : int, default=8
        Nearest rows of "gaussian-knn".
    solver : {"certified", "ama", "admm"}, default="certified"
        "certified": coarsen, solve, certify, split, as for covariates. "ama": accelerated projected gradients on the dual of all rows.
        "admm": alternating directions on all rows. All end with the test whether clusters that are close are one.
    tol : float, default=1e-6
        Relative duality gap.
    max_iter : int, default=10000
        Iterations at every penalty at most.
    n_threads : int, optional
        For passes over many edges. The result does not depend on it.
    verbose : int, default=0
        1: a line per penalty.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance.
    n_clusters_ : int
    cluster_centers_ : ndarray (n_clusters, D) of float64
        The fused u_i: drawn towards each other, unlike means.
    fusion_penalty_, objective_, duality_gap_ : float
        Of the solution; the gap is relative to the dual bound.
    path_ : pandas.DataFrame
        Per penalty: fusion_penalty, n_clusters, labels, objective, gap.
    n_iter_ : int
        Newton steps and iterations of the whole path.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

    References
    ----------
    E. C. Chi, K. Lange: Splitting Methods for Convex Clustering. JCGS 24(4), 2015.

    Examples
    --------
    >>> from craftc import ConvexClustering
    >>> X = [[0.0, 0.1], [0.2, 0.0], [0.1, 0.2], [5.0, 5.1], [5.2, 5.0], [5.1, 5.2]]
    >>> ConvexClustering(n_clusters=2, n_neighbors=3).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self,
        fusion_penalty: float | ArrayLike | None = None,
        *,
        n_clusters: int | None = None,
        weights: Any = "gaussian-knn",
        n_neighbors: int = NEIGHBOURS,
        solver: str = "certified",
        tol: float = 1e-6,
        max_iter: int = 10000,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.fusion_penalty = fusion_penalty
        self.n_clusters = n_clusters
        self.weights = weights
        self.n_neighbors = n_neighbors
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: Any = None) -> ConvexClustering:
        """Cluster the rows.

        Parameters
        ----------
        X : array or data frame (n, D) of finite numbers
            Taken as it is: scale columns whose units differ.
        y : None
            Not used.

        Returns
        -------
        ConvexClustering
            Itself.
        """
        self._check_parameters()
        rows = validate_data(self, X, dtype=np.float64, order="C")
        mean = rows.mean(axis=0)
        spread = rows - mean
        graph = self._graph(rows)
        with threadpool_limits(1, "blas"):
            walker = Walker(np.ascontiguousarray(spread.T), Squares(spread), graph, 0.5, float(self.tol), int(self.max_iter), self.solver,
                            effective_n_threads(self.n_threads))  # fmt: skip
            solutions = self._walk(walker, spread)
        labels = [canonical(solution.label[:-1]) for solution in solutions]
        self._points = [
            RowsPoint(s.nu, int(label.max()) + 1, label, s.objective, s.relative_gap) for s, label in zip(solutions, labels, strict=True)
        ]
        self.n_iter_ = max(1, walker.newton_steps + walker.iterations)
        chosen = self._choice(spread)
        point = self._points[chosen]
        self.labels_, self.n_clusters_ = point.labels, point.n_clusters
        self.fusion_penalty_, self.objective_, self.duality_gap_ = point.fusion_penalty, point.objective, point.gap
        first = np.unique(point.labels, return_index=True)[1]
        self.cluster_centers_ = solutions[chosen].columns()[first] + mean
        return self

    def _graph(self, rows: Floats) -> Graph:
        weights = self.weights
        if isinstance(weights, str):
            check_choice("weights", weights, ("gaussian-knn",), "or a callable, or an array (n, n)")
            weights = knn_similarity(rows, self.n_neighbors)
        elif callable(weights):
            weights = weights(rows)
        edge, weight = edges_of(weights, len(rows), "weights", "row")
        return Graph(len(rows), np.ascontiguousarray(edge, np.int32), weight, np.zeros(len(edge), bool))

    def _walk(self, walker: Walker, spread: Floats) -> list[Solution]:
        """Optima along the path; the default one ends at so many clusters as may be asked for."""
        solutions: list[Solution] = []
        n = len(spread)
        enough = min(self.n_clusters, n) if self.n_clusters is not None else max(1, n // ROWS_PER_CLUSTER) + 1
        for nu in self._penalties(walker, spread):
            solution = walker.step(nu)
            solutions.append(solution)
            clusters = len(np.unique(solution.label[:-1]))
            if self.verbose:
                print(f"penalty {nu:.6g}: {clusters} clusters, J {solution.objective:.6g}, relative gap {solution.relative_gap:.1e}")
            if self.fusion_penalty is None and clusters >= enough:
                break
        worst = max(solution.relative_gap for solution in solutions)
        if worst > self.tol:
            warnings.warn(
                f"ConvexClustering did not reach every optimum: the largest relative gap is {worst:.1e}, tol={self.tol:g}. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return solutions

    def _penalties(self, walker: Walker, spread: Floats) -> Iterator[float]:
        if self.fusion_penalty is not None:
            yield from check_penalties(self.fusion_penalty).tolist()
            return
        most = fusing_penalty(walker.graph, spread)
        yield most
        for a in range(1, GRID if most > 0 else 1):
            yield most * _STEP**a

    def _choice(self, spread: Floats) -> int:
        if self.n_clusters is not None:
            wide = [point.n_clusters >= self.n_clusters for point in self._points]
            return wide.index(True) if any(wide) else len(wide) - 1
        scatter = float((spread**2).sum())
        most = max(1, len(spread) // ROWS_PER_CLUSTER)
        nats = [nats_of(spread, point.labels, scatter) if point.n_clusters <= most else np.inf for point in self._points]
        return int(np.argmin(nats))

    @property
    def path_(self) -> Any:
        """The path as a frame."""
        check_is_fitted(self, "_points")
        return need_pandas().DataFrame(self._points)

    def _check_parameters(self) -> None:
        if self.fusion_penalty is not None:
            check_penalties(self.fusion_penalty)
        if self.n_clusters is not None:
            check_number("n_clusters", self.n_clusters, least=1, whole=True)
        check_number("n_neighbors", self.n_neighbors, least=1, whole=True)
        check_choice("solver", self.solver, SOLVERS)
        check_number("tol", self.tol, above=0)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("verbose", self.verbose, least=0, whole=True)
        effective_n_threads(self.n_threads)


def fusing_penalty(graph: Graph, spread: Floats) -> float:
    """A penalty at which all that edges connect is fused.

    Flows w_ij (phi_i - phi_j) along the edges, with L phi = the rows less the mean of their component, carry every row to that mean;
    they are allowed once no |phi_i - phi_j| is above the penalty.
    """
    if not len(graph.edge):
        return 0.0
    label = components(graph)[:-1]
    count = np.bincount(label)
    means = np.stack([np.bincount(label, column) for column in spread.T], axis=1) / count[:, None]
    load = spread - means[label]
    i, j = graph.edge.T
    d = graph.d
    degree = np.bincount(i, graph.weight, minlength=d) + np.bincount(j, graph.weight, minlength=d)
    held = np.zeros(d)
    held[np.unique(label, return_index=True)[1]] = 1.0  # a node of every component, whose potential is 0
    held *= np.where(degree > 0, degree, 1.0)
    laplacian = coo_array((np.concatenate([-graph.weight, -graph.weight]), (np.append(i, j), np.append(j, i))), (d, d))
    potential = splu(csc_array(laplacian + coo_array((degree + held, (np.arange(d), np.arange(d))), (d, d)))).solve(load)
    return float(lengths(potential[i] - potential[j]).max())


def nats_of(spread: Floats, label: Labels, scatter: float) -> float:
    """Nats to tell the rows by these clusters around their means."""
    sizes = np.bincount(label).astype(np.float64)
    sums = np.stack([np.bincount(label, column) for column in spread.T], axis=1)
    return description_length(sizes, spread.shape[1], scatter - float((sums**2 / sizes[:, None]).sum()), scatter)
