"""Convex clustering of rows, with certified optima along a regularization path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from craftc._common.cluster_moments import (
    ROWS_PER_CLUSTER,
    ClusterMoments,
)
from craftc._common.estimator import all_or_nothing, column_names, warn_of_exact_choice
from craftc._common.labels import canonical
from craftc._common.messages import need_pandas, warn_user
from craftc._common.own_names import remember_input
from craftc._common.products import nearest_rows
from craftc._common.ranges import column_ranges, warn_of_unscaled_columns
from craftc._common.threads import effective_n_threads, one_blas_thread
from craftc._common.typing import Floats, Labels, WeightInput
from craftc._common.validation import (
    Choice,
    Constraint,
    Number,
    check_choice,
    check_parameters,
    check_penalties,
    check_ranges,
    check_weight,
)
from craftc._fusion.datafits import SparseMatrix, Squares
from craftc._fusion.graph import N_NEIGHBORS, Graph, edges_of
from craftc._fusion.path import Optimum, RegularizationPath, follow
from craftc.convex.choice import shortest
from craftc.convex.fusing import fusing_penalty
from craftc.describe.frames import MomentsSummary
from craftc.table.numbers import read_numbers

if TYPE_CHECKING:
    from pandas import DataFrame

SOLVERS = ("certified", "admm")
GRID = 150  # most penalties of the default path
_RATIO = 2.0**-0.2  # ratio of two consecutive penalties
_MIN_WEIGHT = 0.01  # weight of a Gaussian at three times s, so that the path fuses isolated rows
_REFINED = 15  # penalties between two of the path if it skips the requested number of clusters


class RowsPoint(NamedTuple):
    """An optimum on the path."""

    fusion_penalty: float
    n_clusters: int
    labels: Labels
    objective: float
    gap: float  # duality gap, relative to the dual bound


class Nodes(NamedTuple):
    """What is clustered: rows of positive weight, equal ones as one where the graph is that of the table."""

    rows: Floats  # (m, D)
    weight: Floats  # (m,)
    row: NDArray[np.intp]  # (m,) the first row that is this node
    place: NDArray[np.intp]  # (n,) node of every row; -1: weight 0

    @classmethod
    def of(cls, rows: Floats, weight: Floats | None, join: bool) -> Nodes:
        """Nodes in the order of their first rows; `join`: equal rows are one."""
        weight = np.ones(len(rows)) if weight is None else weight
        present, place = np.flatnonzero(weight > 0), np.full(len(rows), -1, np.intp)
        if join:
            _, first, found = np.unique(rows[present] + 0.0, axis=0, return_index=True, return_inverse=True)
            found = first.argsort().argsort()[found.ravel()]
            first.sort()
        else:
            first = found = np.arange(len(present))
        place[present], row = found, present[first]
        return cls(rows[row], np.bincount(found, weight[present]).astype(np.float64), row, place)

    def labels(self, spread: Floats, part: Labels, columns: Floats) -> Labels:
        """(n,) labels of all rows; `part` and `columns`: clusters and centres of the nodes."""
        labels, absent = part[self.place], self.place < 0
        if absent.any():
            first = np.unique(part, return_index=True)[1]
            labels[absent] = nearest_rows(columns[first], spread[absent], 1)[1][:, 0]
        return canonical(labels)


class ConvexClustering(MomentsSummary, ClusterMixin, BaseEstimator):
    """Convex clustering: every row has its own centre, and a penalty fuses the centres of similar rows.

    Minimises over U (n, D), with a row u_i for every row p_i, ``1/2 sum_i |p_i - u_i|^2 + g sum_{i<j} w_ij
    |u_i - u_j|``; rows with equal u_i form a cluster. The optimum is unique, needs no initialisation, and is
    certified by a duality gap. A row of weight v_i counts v_i times in the first sum, and v_i v_j times with
    row j in the second one.

    Parameters
    ----------
    fusion_penalty : float or array, optional
        g. A number: one fit. A decreasing array: a path. None: a path that starts at a penalty that fuses all
        rows the weights connect, and ends when the choice of the clustering needs no smaller penalties.
    n_clusters : int, optional
        The point of the path with the most clusters, but at most this number, is chosen; a warning says where
        it has another number. None: the point with the smallest description length (BIC of a spherical
        Gaussian classification likelihood with equal variances, in as many dimensions as the scatter has),
        with at most one cluster per five rows.
    weights : {"gaussian-knn"}, array or sparse array (n, n), or callable, default="gaussian-knn"
        w, symmetric, >= 0; 0 is no edge, and rows that no path of edges connects are never fused.
        "gaussian-knn": ``exp(-|p_i - p_j|^2 / (2 s^2))``, at least .01, if one row is among the nearest
        neighbours of the other, where equal rows are one; s is the median distance to the last neighbour.
        Connected components are joined by an edge between their nearest rows. A callable receives X.
    n_neighbors : int, default=8
        Nearest neighbours of "gaussian-knn".
    solver : {"certified", "admm"}, default="certified"
        "certified": coarsen, solve, certify, split, as for covariates. "admm": alternating direction method
        of multipliers on all rows. Both end with a test that merges clusters which are close.
    tol : float, default=1e-6
        Relative duality gap.
    max_iter : int, default=10000
        Maximum number of Newton steps of the whole path; of "admm", of iterations at every penalty.
    n_threads : int, optional
        Threads of the passes over edges. The result does not depend on it.
    verbose : int, default=0
        1: print a line per penalty.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance.
    n_clusters_ : int
    cluster_centers_ : ndarray (n_clusters, D) of float64
        The fused u_i. The penalty shrinks them towards each other: they are not the means of the clusters.
    fusion_penalty_, objective_, duality_gap_ : float
        Penalty and objective of the solution, and its duality gap relative to the dual bound.
    path_ : pandas.DataFrame
        Per penalty: fusion_penalty, n_clusters, labels, objective, gap.
    n_iter_ : int
        Newton steps and iterations of the whole path.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined if the input has column names.

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

    _reads_batches = False
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": Number(least=1, whole=True, optional=True),
        "n_neighbors": Number(least=1, whole=True),
        "solver": Choice(SOLVERS),
        "tol": Number(above=0, most=1.0),
        "max_iter": Number(least=1, whole=True),
    }

    def __init__(
        self,
        fusion_penalty: float | ArrayLike | None = None,
        *,
        n_clusters: int | None = None,
        weights: ArrayLike | SparseMatrix | Callable[[Floats], ArrayLike | SparseMatrix] = "gaussian-knn",
        n_neighbors: int = N_NEIGHBORS,
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

    @all_or_nothing
    def fit(self, X: ArrayLike, y: object = None, sample_weight: WeightInput = None) -> Self:
        """Cluster the rows.

        Parameters
        ----------
        X : array or data frame (n, D) of finite numbers
            Used without scaling: scale columns whose units differ.
        y : None
            Ignored.
        sample_weight : array (n,), optional
            v, finite, >= 0. Weight 2 counts as two equal rows, weight 0 as none; such a row gets the cluster
            with the nearest centre.

        Returns
        -------
        ConvexClustering
            The fitted estimator.
        """
        self._check_parameters()
        rows = read_numbers(self, X, reset=True)
        check_ranges(*column_ranges(rows), column_names(self))
        remember_input(self, X)
        warn_of_unscaled_columns(self, rows)
        nodes = Nodes.of(rows, check_weight(sample_weight, len(rows)), isinstance(self.weights, str))
        mean = np.average(nodes.rows, axis=0, weights=nodes.weight)
        graph = self._graph(rows, nodes)
        with one_blas_thread():
            axes = _axes(nodes.rows - mean)
            spread = _along(nodes.rows - mean, axes)
            path = self._new_path(spread, graph)
            penalties = self._penalties(graph, spread)
            ends = partial(self._ends, len(spread), float(nodes.weight.sum()))
            optima = follow(path, penalties, ends, verbose=self.verbose, estimator=self)
            n_iter = path.n_iter
            if self.fusion_penalty is None and self.n_clusters is not None and len(optima) > 1:
                before, last = optima[-2:]
                if before.n_clusters < self.n_clusters < last.n_clusters:
                    # the path skips this number of clusters: again between the two, in small steps
                    refined = self._new_path(spread, graph)
                    between = np.geomspace(before.nu, last.nu, _REFINED + 2)[1:-1]
                    optima[-1:-1] = [refined.step(float(nu)) for nu in between]
                    n_iter += refined.n_iter
        parts = [canonical(optimum.label[:-1]) for optimum in optima]
        everywhere = spread if len(spread) == len(rows) else _along(rows - mean, axes)
        self._points = []
        for o, part in zip(optima, parts, strict=True):
            labels = nodes.labels(everywhere, part, o.columns())
            o = o._replace(objective=_objective(o, spread, graph))
            gap = max(o.relative_gap, 0.0)  # below 0 by rounding
            self._points.append(RowsPoint(o.nu, int(part.max()) + 1, labels, o.objective, gap))
        self.n_iter_ = max(1, n_iter)
        chosen = self._choice(parts, spread, nodes.weight)
        point = self._points[chosen]
        self.labels_, self.n_clusters_ = point.labels, point.n_clusters
        self.fusion_penalty_, self.objective_ = point.fusion_penalty, point.objective
        self.duality_gap_ = point.gap
        first = np.unique(point.labels[nodes.row], return_index=True)[1]
        centers = optima[chosen].columns()[first]
        self.cluster_centers_ = (centers if axes is None else centers @ axes.T) + mean
        self._moments = ClusterMoments.of(nodes.rows, point.labels[nodes.row], self.n_clusters_, nodes.weight)
        if self.n_clusters is not None and self.n_clusters_ != self.n_clusters:
            self._warn_of_other_number(int(self.n_clusters))
        automatic = self.n_clusters is None and self.fusion_penalty is None
        if automatic and 1 < self.n_clusters_ == len(nodes.rows):
            warn_of_exact_choice(
                self, f"{self.n_clusters_} clusters of equal rows", "n_clusters, or use CRAFT"
            )
        return self

    def _new_path(self, spread: Floats, graph: Graph) -> RegularizationPath:
        sizes, tol, max_iter = graph.sizes[:, None], float(self.tol), int(self.max_iter)
        X, threads = np.ascontiguousarray((sizes * spread).T), effective_n_threads(self.n_threads)
        return RegularizationPath(X, Squares(spread, sizes), graph, 0.5, tol, max_iter, self.solver, threads)

    def _graph(self, rows: Floats, nodes: Nodes) -> Graph:
        """The graph of the nodes; a callable and an array are of all rows."""
        weights, n = self.weights, len(nodes.rows)
        if isinstance(weights, str):
            check_choice("weights", weights, ("gaussian-knn",), "or a callable, or an array (n, n)")
            edge, weight = edges_of(gaussian_weights(nodes.rows, self.n_neighbors), n, "weights", "row")
        else:
            if callable(weights):
                weights = weights(rows)
            edge, weight = edges_of(weights, len(rows), "weights", "row")
            kept = (nodes.place[edge] >= 0).all(axis=1)
            edge, weight = nodes.place[edge[kept]], weight[kept]
        weight = weight * nodes.weight[edge].prod(axis=1)
        return Graph(n, edge.astype(np.int32), weight, np.zeros(len(edge), bool), nodes.weight)

    def _ends(self, n: int, total: float, counts: list[int]) -> bool:
        """Whether a path with these numbers of clusters contains every possible choice."""
        most = self.n_clusters if self.n_clusters is not None else max(1, int(total / ROWS_PER_CLUSTER))
        return self.fusion_penalty is None and counts[-1] >= min(most, n - 1) + 1

    def _penalties(self, graph: Graph, spread: Floats) -> Iterator[float]:
        if self.fusion_penalty is not None:
            yield from check_penalties(self.fusion_penalty).tolist()
            return
        most = fusing_penalty(graph, spread)
        for a in range(GRID):
            yield most * _RATIO**a

    def _choice(self, parts: list[Labels], spread: Floats, weight: Floats) -> int:
        """The point to choose; `parts`: clusters of the nodes at every point."""
        counts = [point.n_clusters for point in self._points]
        if self.n_clusters is not None:
            # the most clusters that are allowed, else the fewest; among ties, the smallest penalty
            ranks = [count if count <= self.n_clusters else -count for count in counts]
            return len(ranks) - 1 - int(np.argmax(ranks[::-1]))
        return shortest(parts, spread, weight)

    def _warn_of_other_number(self, wanted: int) -> None:
        """Warn that no point of the path has the number of clusters that was asked for."""
        more = [point.n_clusters for point in self._points if point.n_clusters > wanted]
        found = f"{type(self).__name__} found {self.n_clusters_} cluster(s), "
        if self.n_clusters_ > wanted:
            remedy = (
                "the weights leave that many groups without an edge between them; pass other weights"
                if self.fusion_penalty is None
                else "larger values of fusion_penalty fuse more, as far as edges connect the rows"
            )
            warn_user(f"{found}more than n_clusters={wanted}, the fewest of its path: {remedy}.")
        elif more:
            warn_user(
                f"{found}fewer than n_clusters={wanted}: its path goes on with {min(more)} clusters at once. "
                "path_ lists what it has."
            )
        else:
            warn_user(f"{found}fewer than n_clusters={wanted}, the most of its path; path_ lists the others.")

    @property
    def path_(self) -> DataFrame:
        """The regularization path as a frame."""
        check_is_fitted(self, "_points")
        path: DataFrame = need_pandas().DataFrame(self._points)
        return path

    def _check_parameters(self) -> None:
        if self.fusion_penalty is not None:
            check_penalties(self.fusion_penalty)
        check_parameters(self)
        effective_n_threads(self.n_threads)


def _axes(spread: Floats) -> Floats | None:
    """(D, m) orthonormal axes of the space that m rows span, where they are fewer than the columns: the
    objective depends on distances alone, which are the same along the axes.
    """
    m, D = spread.shape
    return np.linalg.qr(spread.T)[0] if m < D else None


def _along(spread: Floats, axes: Floats | None) -> Floats:
    """Coordinates of rows along the axes; those of equal rows are equal."""
    if axes is None:
        return spread
    _, first, place = np.unique(spread, axis=0, return_index=True, return_inverse=True)
    return np.asarray((spread[first] @ axes)[place.ravel()])


def gaussian_weights(rows: Floats, n_neighbors: int) -> coo_array:
    """Gaussian weights of nearest neighbours, with edges added until the graph is connected."""
    n = len(rows)
    k = min(n_neighbors, n - 1)
    if k < 1:
        return coo_array((n, n))
    distance, place = nearest_rows(rows, None, k)
    size = float(np.median(distance[:, -1])) or 1.0
    i, j, d = np.repeat(np.arange(n), k), place.ravel(), distance.ravel()
    while True:
        count, label = connected_components(coo_array((np.ones(len(i)), (i, j)), (n, n)), directed=False)
        if count == 1:
            break
        # join every component except the largest to the nearest other row: that at least halves their number
        for group in np.delete(np.arange(count), np.bincount(label).argmax()):
            own, other = np.flatnonzero(label == group), np.flatnonzero(label != group)
            reach, nearest = nearest_rows(rows[other], rows[own], 1)
            best = int(reach.argmin())
            i, j = np.append(i, own[best]), np.append(j, other[nearest[best, 0]])
            d = np.append(d, reach[best, 0])
    weight = np.maximum(np.exp(-0.5 * (d / size) ** 2), _MIN_WEIGHT)
    near = coo_array((weight, (i, j)), (n, n)).tocsr()
    near.data = np.minimum(near.data, 1.0)  # pairs found twice were added up
    return near.maximum(near.T)


def _objective(optimum: Optimum, spread: Floats, graph: Graph) -> float:
    """J of an optimum from its residuals. The solver's own is a difference of sums of squares of the rows,
    which says little where the penalty is small against these.
    """
    U = optimum.columns()
    first, second = graph.edge.T
    apart = np.sqrt(np.square(U[first] - U[second]).sum(axis=1))
    return float(0.5 * (graph.sizes @ np.square(spread - U)).sum() + optimum.nu * (graph.weight @ apart))
