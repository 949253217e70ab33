"""Parts of the engine of convex clustering: aggregates of large clusters, Hessians of merged clusters,
problems without edges.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from craftc import ConvexClustering
from craftc._fusion import aggregates as aggregates_module
from craftc._fusion.admm import Admm
from craftc._fusion.aggregates import MIN_NODES, Aggregates
from craftc._fusion.datafits import Multinomial
from craftc._fusion.graph import Graph, edges_of, lengths, with_zero_node
from craftc._fusion.newton import Newton
from craftc._fusion.path import RegularizationPath
from craftc._fusion.problem import Coarsening, Curvature, Subproblem
from craftc.covariates import knn_similarity


def lattice(rng, sizes, grounded=False):
    """A graph whose components have these sizes, each a chain with random chords; `grounded`: the last one
    has edges to the zero node.
    """
    edge, start = [], 0
    for size in sizes:
        nodes = start + np.arange(size)
        edge += [(i, i + 1) for i in nodes[:-1]]
        edge += (
            [tuple(sorted(rng.choice(nodes, 2, replace=False))) for _ in range(2 * size)] if size > 2 else []
        )
        start += size
    d = start
    edge += [(i, d) for i in range(d - sizes[-1], d, 3)] if grounded else []
    edge = np.unique(np.array(edge, np.int32), axis=0)
    return Graph(d, np.ascontiguousarray(edge), rng.uniform(0.01, 1.0, len(edge)), edge[:, 1] == d)


def clusters_of(graph):
    """The coarsening whose clusters are the connected components."""
    d = graph.d
    count, label = connected_components(
        sparse.coo_array((np.ones(len(graph.edge)), tuple(graph.edge.T)), (d + 1, d + 1)), directed=False
    )
    _, first = np.unique(label, return_index=True)
    order = np.argsort(np.argsort(first))
    order[order > order[label[d]]] -= 1
    order[label[d]] = count - 1
    y = np.arange(6) % 2
    X = np.random.default_rng(0).normal(size=(6, d))
    return Coarsening(X, Multinomial(y, 2), graph, order[label].astype(np.int32))


@pytest.mark.parametrize("grounded", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_aggregates_are_connected_parts_of_large_clusters(monkeypatch, seed, grounded):
    monkeypatch.setattr(aggregates_module, "_MOST", 20)
    rng = np.random.default_rng(seed)
    graph = lattice(rng, [MIN_NODES, 7, 300, 1, MIN_NODES - 1, 150], grounded)
    coarsening = clusters_of(graph)
    found = coarsening.aggregates(graph.weight[coarsening.inside])
    size = np.diff(coarsening.first_node)
    assert ((found.parts > 0) == (size >= MIN_NODES)).all()
    assert found.parts.max() <= 20
    assert len(found.inverse) == (found.parts**2).sum()
    i, j = graph.edge[graph.edge[:, 1] < graph.d].T
    for c in np.flatnonzero(found.parts):
        nodes = np.flatnonzero(coarsening.label[:-1] == c)
        assert set(found.label[nodes]) == set(range(found.parts[c]))
        for part in range(found.parts[c]):
            own = np.zeros(graph.d, bool)
            own[nodes[found.label[nodes] == part]] = True
            some = own[i] & own[j]
            count, _ = connected_components(
                sparse.coo_array((np.ones(some.sum()), (i[some], j[some])), (graph.d, graph.d)),
                directed=False,
            )
            assert count == graph.d - own.sum() + 1


@pytest.mark.parametrize("grounded", [False, True])
def test_the_inverse_is_that_of_the_laplacian_of_the_steps(grounded):
    graph = lattice(np.random.default_rng(0), [90], grounded)
    coarsening = clusters_of(graph)
    radius = graph.weight[coarsening.inside]
    found = coarsening.aggregates(radius)
    cluster, d = int(np.flatnonzero(found.parts)[0]), graph.d
    edge, n = coarsening.inner_edge, int(found.parts[cluster])
    D = np.zeros((len(edge), d + 1))
    D[np.arange(len(edge)), edge[:, 0]], D[np.arange(len(edge)), edge[:, 1]] = 1.0, -1.0
    capacity = abs(D).T @ radius
    capacity[d] = 0.0
    step = radius / capacity[edge].sum(axis=1)
    member = (found.label[:, None] == np.arange(n)).astype(float)
    laplacian = member.T @ (D[:, :d].T * step) @ D[:, :d] @ member
    inverse = found.inverse.reshape(n, n)
    load = np.random.default_rng(1).normal(size=n)
    load -= 0.0 if grounded else load.mean()
    np.testing.assert_allclose(laplacian @ inverse @ load, load, rtol=0, atol=1e-6)


def test_aggregates_change_no_partition_or_certificate(monkeypatch):
    """Weakly joined groups, each with enough nodes; a path with aggregates and one with plain steps only."""
    rng = np.random.default_rng(0)
    P = np.concatenate([rng.normal(size=(90, 3)) + shift for shift in ([0, 0, 0], [12, 0, 0], [0, 15, 0])])
    penalties = 3000.0 * 2.0 ** (-0.5 * np.arange(16))
    ours = ConvexClustering(penalties).fit(P)
    monkeypatch.setattr(aggregates_module, "MIN_NODES", 10**6)
    plain = ConvexClustering(penalties).fit(P)
    assert ours.path_.n_clusters.tolist() == plain.path_.n_clusters.tolist()
    np.testing.assert_allclose(ours.path_.objective, plain.path_.objective, rtol=1e-6)
    assert ours.path_.gap.max() <= 1e-6


@pytest.mark.parametrize("to_zero", [False, True])
@pytest.mark.parametrize("c", [2, 3, 4])
def test_the_hessian_of_merged_clusters(c, to_zero):
    rng = np.random.default_rng(c)
    d, n = 9, 40
    X, y = rng.normal(size=(n, d)), rng.permutation(np.arange(n) % c)
    edge = np.ascontiguousarray(np.stack(np.triu_indices(d + 1, 1), axis=1), np.int32)
    datafit, graph = Multinomial(y, c), Graph(d, edge, np.ones(len(edge)), edge[:, 1] == d)
    fine = Coarsening(X, datafit, graph, np.arange(d + 1, dtype=np.int32))
    assert fine.merged_hessian(np.zeros(d + 1, np.int32)) is None
    group = np.array([0, 1, 0, 2, 3, 1, 0, 4, 3, 5], np.int32)
    group[group == 3] = 5 if to_zero else 3
    group = np.unique(group, return_inverse=True)[1].astype(np.int32)
    coarse = Coarsening(X, datafit, graph, group)
    theta = rng.normal(size=(coarse.m + 1, c - 1))
    point = datafit.at(coarse.X, theta)
    fine.hessian = Curvature(datafit.hessian(fine.X, point), point.entropy)
    merged = fine.merged_hessian(group)
    np.testing.assert_allclose(merged.matrix, datafit.hessian(coarse.X, point), rtol=1e-12, atol=1e-12)
    assert not merged.outdated(point)
    assert merged.outdated(datafit.at(coarse.X, 0.8 * theta))


@pytest.mark.parametrize("width", [3, 70, 131])
def test_the_hessian_is_that_of_the_products(width):
    """Its blocks are computed for halves of the columns where there are many."""
    rng = np.random.default_rng(width)
    X, y, c = rng.normal(size=(20, width)), np.arange(20) % 4, 4
    datafit, theta = Multinomial(y, c), 0.1 * rng.normal(size=(width, c - 1))
    point, direction = datafit.at(X, theta), rng.normal(size=(width, c - 1))
    hessian = datafit.hessian(X, point)
    np.testing.assert_allclose(
        hessian @ direction.ravel(),
        datafit.hessian_product(X, point, direction).ravel(),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        np.diag(hessian).reshape(width, c - 1), datafit.hessian_diagonal(X, point), rtol=1e-12
    )


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("steps", [0, 3, 1000])
def test_without_edges_newton_steps_end_at_the_optimum(ridge, steps):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(3, size=200)
    graph = Graph(5, np.empty((0, 2), np.int32), np.empty(0), np.empty(0, bool))
    datafit = Multinomial(y, 3)
    coarsening = Coarsening(X, datafit, graph, np.arange(6, dtype=np.int32))
    subproblem = Subproblem(coarsening, np.empty(0), ridge, 1e-3, 1e-10, 1e-12, 1)
    solver = Newton(steps)
    found = solver.solve(subproblem, datafit.start(6), np.empty((0, 2)))
    gradient = coarsening.datafit.gradient(coarsening.X, found.point) + subproblem.weight * found.theta
    assert solver.n_iter == found.n_iter <= steps
    assert (np.abs(gradient).max() < 1e-3) == (steps == 1000)


def path_of_pairs(nu, ridge=0.1, tol=1e-6):
    """The path on six covariates, in pairs that are alike, on a complete graph; at its optimum at nu."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    X = rng.normal(size=(300, 6)) + 1.5 * (np.arange(6) // 2 == y[:, None])
    edge = np.ascontiguousarray(np.stack(np.triu_indices(6, 1), axis=1), np.int32)
    path = RegularizationPath(
        X, Multinomial(y, 3), Graph(6, edge, np.ones(15), np.zeros(15, bool)), ridge, tol, 1000
    )
    return path, path.step(nu)


def test_an_optimum_is_found_once_while_it_holds(monkeypatch):
    """Before a cluster comes apart, larger and smaller penalties have one optimum and one certificate."""
    path, first = path_of_pairs(1e6)
    calls, certify = [], RegularizationPath._certify
    monkeypatch.setattr(
        RegularizationPath,
        "_certify",
        lambda self, *args, **kw: calls.append(0) or certify(self, *args, **kw),
    )
    optima = [path.step(1e6 * 0.5**k) for k in range(1, 30)]
    constant = [optimum for optimum in optima if optimum.n_clusters == 1]
    assert len(constant) > 10
    assert len(calls) < len(optima)
    for optimum in optima:
        alone = path_of_pairs(optimum.nu)[1]
        assert optimum.n_clusters == alone.n_clusters
        assert optimum.objective == pytest.approx(alone.objective, rel=1e-6)
        assert optimum.relative_gap <= 1e-6
    assert {optimum.objective for optimum in constant} == {first.objective}


def test_clusters_that_are_surely_apart_are_not_tried_as_one(monkeypatch):
    """The gap of the optimum bounds the distance of columns that may be one; that of the optimum on its
    clusters, made smaller, excludes most of them without a fit.
    """
    tried = []
    path, _ = path_of_pairs(1e6, tol=1e-4)
    coarsen = RegularizationPath._coarsen
    monkeypatch.setattr(
        RegularizationPath, "_coarsen", lambda self, group: tried.append(0) or coarsen(self, group)
    )
    optima = [path.step(60.0 * 0.97**k) for k in range(200)]
    assert optima[-1].n_clusters > 3
    assert max(optimum.relative_gap for optimum in optima) <= 1e-4
    assert len(tried) <= 10, len(tried)


def test_a_saturated_edge_without_a_difference_is_not_cut():
    """At the optimum all edges of a cluster may be saturated, though only some of its nodes part."""
    path, _ = path_of_pairs(1e6)
    assert path.label.tolist() == [0, 0, 0, 0, 0, 0, 1]
    parting = np.repeat([[0.0, 1.0], [3.0, 1.0]], [2, 4], axis=0)
    torn, saturated = np.array([True, False]), np.ones(15, bool)
    assert path._split(torn, saturated, with_zero_node(parting)).tolist() == [0, 0, 1, 1, 1, 1, 2]
    assert path._split(torn, ~saturated, with_zero_node(parting)).tolist() == [0, 0, 1, 1, 1, 1, 2]
    assert path._split(torn, saturated, np.zeros((7, 2))) is None
    assert path._split(~torn, saturated, with_zero_node(parting)) is None


def test_merges_farther_away_than_optima_can_be_are_not_tried(monkeypatch):
    path, optimum = path_of_pairs(10.0)
    assert optimum.n_clusters == 3
    group, radius = np.zeros(4, np.int32), path.graph.radius(10.0)
    group[-1] = 1
    apart = path.theta[:-1] - path.theta[:-1].mean(axis=0)
    assert path._distance(group) == pytest.approx(np.sqrt(2.0 * (apart**2).sum()))
    assert path._distance(np.array([0, 1, 2, 2], np.int32)) == pytest.approx(
        np.sqrt(2.0 * (path.theta[2] ** 2).sum())
    )
    monkeypatch.setattr(path, "_solve", None)  # nothing is solved
    assert path._merged(group, radius, optimum, optimum.gap) is None
    assert path.label.tolist() == [0, 0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("first_order", [False, True])
def test_parts_of_a_group_that_flows_hold_together_are_merged(first_order, monkeypatch):
    path, best = path_of_pairs(10.0)
    radius = path.graph.radius(10.0)
    monkeypatch.setattr(path._certified.newton, "fits", lambda subproblem: not first_order)
    path._refine(np.arange(7, dtype=np.int32))
    found, subproblem = path._solve(path._certified, radius, 0.1)
    objective = path._objective(found.point, subproblem)
    optimum = best._replace(label=path.label, theta=path.theta, objective=objective)
    certify, finer = path._certify, [np.array([0, 0, 1, 1, 2, 3, 4], np.int32)]

    def first_split(*arguments, **options):
        bound, split = certify(*arguments, **options)
        return bound, finer.pop() if finer else split

    monkeypatch.setattr(path, "_certify", first_split)
    group = np.array([0, 0, 1, 1, 2, 2, 3], np.int32)
    merged, _ = path._merged(group, radius, optimum, optimum.gap)
    assert merged.label.tolist() == path.label.tolist() == [0, 0, 1, 1, 2, 3, 4]
    assert merged.objective <= objective * (1.0 + 1e-9)
    # a group that nothing holds together changes nothing
    kept = path.label, path.theta.copy()
    finer.append(path.label)
    assert path._merged(np.array([0, 1, 2, 2, 3], np.int32), radius, merged, merged.gap) is None
    np.testing.assert_array_equal(path.label, kept[0])
    np.testing.assert_array_equal(path.theta, kept[1])


def test_an_admm_ends_where_its_optimum_is_proved_to_be_too_large():
    path, _ = path_of_pairs(10.0)
    found = []
    for limit in (np.inf, 0.0):
        admm = Admm(1000)
        subproblem = Subproblem(
            path.coarsening,
            path.coarsening.radius(path.graph.radius(10.0)),
            0.1,
            1e-3,
            1e-12,
            1e-12,
            1,
            limit,
        )
        admm.solve(subproblem, path.datafit.start(4), np.zeros((len(path.coarsening.edge), 2)))
        found.append(admm.n_iter)
    assert found[1] < found[0]


def test_edges_of_dense_and_sparse_similarities_are_the_same():
    S = knn_similarity(np.random.default_rng(0).normal(size=(30, 2)), 4)
    for ours, theirs in zip(edges_of(S.toarray(), 30, "S", "row"), edges_of(S, 30, "S", "row"), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert lengths(np.empty((0, 2))).shape == (0,)
    rounded = np.abs(np.corrcoef(np.random.default_rng(0).normal(size=(40, 12)), rowvar=False))
    assert (rounded != rounded.T).any()
    for matrix in (rounded, sparse.csr_array(rounded)):
        edge, weight = edges_of(matrix, 12, "S", "row")
        np.testing.assert_array_equal(weight, (rounded[*edge.T] + rounded.T[*edge.T]) / 2)
        assert len(edge) == 66
    with pytest.raises(ValueError, match=r"S must be symmetric, got a difference of 0\.5"):
        edges_of(np.array([[0.0, 1.0], [0.5, 0.0]]), 2, "S", "row")
    with pytest.raises(ValueError, match="S must be finite and >= 0"):
        edges_of(np.array([[0.0, np.nan], [np.nan, 0.0]]), 2, "S", "row")


def test_aggregates_of_nothing():
    none = Aggregates.of(
        np.empty((0, 2), np.int32), np.empty(0), np.arange(4, dtype=np.int32), np.array([0, 1, 2, 3, 3])
    )
    assert not none.parts.any()
    assert len(none.inverse) == 0
