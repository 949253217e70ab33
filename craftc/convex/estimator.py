"""Convex clustering of rows: the classic baseline, with certified optima along a whole path."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from craftc._common.description_length import ROWS_PER_CLUSTER, description_length
from craftc._common.labels import canonical
from craftc._common.optional import need_pandas
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats, Labels
from craftc._common.validation import check_choice, check_number, check_penalties
from craftc._fusion.datafits import Squares
from craftc._fusion.graph import NEIGHBOURS, edges_of
from craftc._fusion.path import Solution, Walker
from craftc._fusion.problem import Graph, components, lengths

SOLVERS = ("certified", "ama", "admm")
GRID = 150  # penalties of the default path at most
_FLOOR = 0.01  # of the weights, a distance of three sizes: rows far from all others are fused at last, too
_FINER = 15  # penalties between two of the path, where the number of clusters that is asked for was stepped over
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

    Minimises over U (n, D), with a row u_i for every row p_i, ``1/2 sum_i |p_i - u_i|^2 + g sum_{i<j} w_ij |u_i - u_j|``; rows whose
    u_i are equal are a cluster. There is one optimum, no start to choose, and a duality gap certifies it.

    Parameters
    ----------
    fusion_penalty : float or array, optional
        g. A number: one fit. A decreasing array: a path. None: a path from the penalty that fuses whatever the weights connect,
        downwards, as far as the choice of the clustering needs.
    n_clusters : int, optional
        Of a path the point with the most clusters up to so many is taken. None: the one that tells the rows in fewest nats by spherical
        clusters of one variance (BIC of the classification likelihood, up to a cluster for five rows).
    weights : {"gaussian-knn"}, array or sparse array (n, n), or callable, default="gaussian-knn"
        w, symmetric, >= 0; 0 is no edge, and rows without a path of edges between them are never fused. "gaussian-knn":
        ``exp(-|p_i - p_j|^2 / (2 s^2))``, but no less than .01, where one row is among the nearest of the other, s the median distance to
        the last of these; groups without an edge between them get one where they are nearest. A callable gets X.
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
        walker = self._walker(spread, graph)
        with threadpool_limits(1, "blas"):
            solutions = self._walk(walker, spread)
            if self.fusion_penalty is None and self.n_clusters is not None and len(solutions) > 1:
                before, last = solutions[-2:]
                if clusters_of(before) < self.n_clusters < clusters_of(last):
                    # the path steps over so many clusters: once more between the two, in small steps
                    finer = self._walker(spread, graph)
                    solutions[-1:-1] = [finer.step(float(nu)) for nu in np.geomspace(before.nu, last.nu, _FINER + 2)[1:-1]]
                    walker.iterations += finer.newton_steps + finer.iterations
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

    def _walker(self, spread: Floats, graph: Graph) -> Walker:
        return Walker(np.ascontiguousarray(spread.T), Squares(spread), graph, 0.5, float(self.tol), int(self.max_iter), self.solver,
                      effective_n_threads(self.n_threads))  # fmt: skip

    def _graph(self, rows: Floats) -> Graph:
        weights = self.weights
        if isinstance(weights, str):
            check_choice("weights", weights, ("gaussian-knn",), "or a callable, or an array (n, n)")
            weights = gaussian_weights(rows, self.n_neighbors)
        elif callable(weights):
            weights = weights(rows)
        edge, weight = edges_of(weights, len(rows), "weights", "row")
        return Graph(len(rows), np.ascontiguousarray(edge, np.int32), weight, np.zeros(len(edge), bool))

    def _walk(self, walker: Walker, spread: Floats) -> list[Solution]:
        """Optima along the path; the default one ends at so many clusters as may be asked for."""
        solutions: list[Solution] = []
        n = len(spread)
        enough = min(self.n_clusters if self.n_clusters is not None else max(1, n // ROWS_PER_CLUSTER), n - 1) + 1
        for nu in self._penalties(walker, spread):
            solution = walker.step(nu)
            solutions.append(solution)
            clusters = clusters_of(solution)
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
        for a in range(GRID):
            yield most * _STEP**a

    def _choice(self, spread: Floats) -> int:
        if self.n_clusters is not None:
            few = [point.n_clusters if point.n_clusters <= self.n_clusters else 0 for point in self._points]
            return len(few) - 1 - int(np.argmax(few[::-1]))
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


def clusters_of(solution: Solution) -> int:
    return len(np.unique(solution.label[:-1]))


def gaussian_weights(rows: Floats, n_neighbors: int) -> coo_array:
    """Gaussian weights of near rows, and of the nearest of groups that these leave apart."""
    n = len(rows)
    k = min(n_neighbors, n - 1)
    if k < 1:
        return coo_array((n, n))
    distance, place = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors()
    size = float(np.median(distance[:, -1])) or 1.0
    i, j, d = np.repeat(np.arange(n), k), place.ravel(), distance.ravel()
    while True:
        count, label = connected_components(coo_array((np.ones(len(i)), (i, j)), (n, n)), directed=False)
        if count == 1:
            break
        # the nearest other row of every group but the largest: that halves their number
        for group in np.delete(np.arange(count), np.bincount(label).argmax()):
            own, other = np.flatnonzero(label == group), np.flatnonzero(label != group)
            reach, nearest = NearestNeighbors(n_neighbors=1).fit(rows[other]).kneighbors(rows[own])
            best = int(reach.argmin())
            i, j, d = np.append(i, own[best]), np.append(j, other[nearest[best, 0]]), np.append(d, reach[best, 0])
    weight = np.maximum(np.exp(-0.5 * (d / size) ** 2), _FLOOR)
    near = coo_array((weight, (i, j)), (n, n)).tocsr()
    near.data = np.minimum(near.data, 1.0)  # a pair that was found twice
    return near.maximum(near.T)


def fusing_penalty(graph: Graph, spread: Floats) -> float:
    """A penalty at which all that edges connect is fused.

    Flows w_ij (phi_i - phi_j) along the edges, with L phi = the rows less the mean of their component, carry every row to that mean;
    they are allowed once no |phi_i - phi_j| is above the penalty.
    """
    if not len(graph.edge):
        return 1.0
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
    return float(lengths(potential[i] - potential[j]).max()) or 1.0


def nats_of(spread: Floats, label: Labels, scatter: float) -> float:
    """Nats to tell the rows by these clusters around their means."""
    sizes = np.bincount(label).astype(np.float64)
    sums = np.stack([np.bincount(label, column) for column in spread.T], axis=1)
    return description_length(sizes, spread.shape[1], scatter - float((sums**2 / sizes[:, None]).sum()), scatter)
