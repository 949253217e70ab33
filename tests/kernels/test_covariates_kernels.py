"""The kernels of covariate clustering against NumPy and SciPy: passes over edges, Newton terms, components,
flows inside clusters.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear
from scipy.sparse.csgraph import connected_components

from craftc._kernels import covariates as kernel

NO_HESSIAN = np.empty((1, 1))


def random_edges(rng, m, count, zero_node):
    """Edges i < j of m nodes; some lead to the zero node, m, where there is one."""
    edge = np.array([rng.choice(m + zero_node, 2, replace=False) for _ in range(count)], np.int32).reshape(
        count, 2
    )
    return np.sort(edge, axis=1)


def incidence(edge, d):
    """D (l, d): rows e_i - e_j, e_i for an edge to the zero node."""
    return np.array([np.eye(d + 1)[i] - np.eye(d + 1)[j] for i, j in edge]).reshape(-1, d + 1)[:, :d]


# ---- one pass over the edges ----


def random_pass(seed, q, zero_node, m=6, count=40):
    """Vectors of m nodes, then the zeros of the zero node, and sorted edges, about half of them inside their
    balls.
    """
    rng = np.random.default_rng(seed)
    edge = random_edges(rng, m, count, zero_node)
    edge = np.ascontiguousarray(edge[np.lexsort((edge[:, 1], edge[:, 0]))])
    return SimpleNamespace(
        b=np.concatenate([rng.normal(size=(m, q)), np.zeros((1, q))]),
        edge=edge,
        radius=rng.uniform(0.2, 2.0, count) * np.sqrt(q),
        step=rng.uniform(0.1, 1.0, count),
        lam=0.3 * rng.normal(size=(count, q)),
    )


def one_pass(t, relax=1.0, blocks=1, n_threads=1):
    """New duals, flags, sums and distance by the kernel; results and work arrays hold rubbish before."""
    lam, fused, sums = t.lam.copy(), np.full(len(t.lam), 9, np.uint8), np.full(t.b.shape, 7.0)
    work = np.full((blocks, *t.b.shape), -5.0)
    moved = kernel.edge_pass(t.b, t.edge, t.radius, t.step, relax, lam, fused, sums, work, n_threads)
    return lam, fused, sums, moved


def check_pass(t, relax, **more):
    """The pass is what NumPy makes of it."""
    lam, fused, sums, moved = one_pass(t, relax, **more)
    pushed = t.lam + t.step[:, None] * (t.b[t.edge[:, 0]] - t.b[t.edge[:, 1]])
    norm = np.linalg.norm(pushed, axis=1)
    expected = pushed * np.minimum(1.0, t.radius / np.maximum(norm, 1e-300))[:, None]
    total = np.zeros_like(t.b)
    np.add.at(total, t.edge[:, 0], expected)
    np.subtract.at(total, t.edge[:, 1], expected)
    np.testing.assert_allclose(lam, t.lam + relax * (expected - t.lam), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(fused, norm <= t.radius)
    np.testing.assert_allclose(sums, total, rtol=0, atol=1e-12 * max(1.0, np.abs(t.radius).sum()))
    assert moved == pytest.approx((((expected - t.lam) ** 2).sum(axis=1) / t.step).sum(), rel=1e-12)
    return fused


@pytest.mark.parametrize("zero_node", [False, True])
@pytest.mark.parametrize("relax", [1.0, 1.7])
@pytest.mark.parametrize("q", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("seed", range(4))
def test_a_pass_equals_numpy(seed, q, relax, zero_node):
    fused = check_pass(random_pass(seed, q, zero_node), relax)
    assert 0 < fused.sum() < len(fused)


@pytest.mark.parametrize("relax", [1.0, 1.7])
@pytest.mark.parametrize("q", [1, 3, 4, 5])
@pytest.mark.parametrize("many", [31, 32, 33, 64, 100])
def test_long_rows_of_one_node(many, q, relax):
    """Edges of one first node are processed together, up to a limit: here the first node has `many` and its
    neighbour the rest.
    """
    m = many + 1
    t = random_pass(many, q, True, m, 2 * many)
    t.edge = np.array([*((0, j) for j in range(1, m)), *((1, j) for j in range(2, m + 1))], np.int32)
    check_pass(t, relax)
    check_pass(t, relax, blocks=7)


def test_edges_in_any_order_are_only_slower():
    t = random_pass(0, 2, True)
    t.edge = np.ascontiguousarray(t.edge[np.random.default_rng(0).permutation(len(t.edge))])
    check_pass(t, 1.7)


@pytest.mark.parametrize("q", [1, 4, 5])
def test_edges_without_radius(q):
    """Their duals are zero; they are fused only where nothing is projected, and 0 / 0 does not occur."""
    t = random_pass(1, q, False)
    t.radius[:] = 0.0
    lam, fused, sums, moved = one_pass(t)
    assert not lam.any()
    assert not fused.any()
    assert not sums.any()
    assert moved == pytest.approx(((t.lam**2).sum(axis=1) / t.step).sum())
    t.b[:], t.lam[:] = 1.0, 0.0
    lam, fused, sums, moved = one_pass(t)
    assert not lam.any()
    assert fused.all()
    assert (sums.any(), moved) == (False, 0.0)


@pytest.mark.parametrize("q", [2, 5])
def test_the_flag_is_the_branch(q):
    """On the sphere nothing is changed, just outside something is."""
    t = random_pass(2, q, False, 2, 2)
    t.edge, t.step, t.lam = np.array([[0, 1]] * 2, np.int32), np.ones(2), np.zeros((2, q))
    t.b[:] = 0.0
    t.b[0, 0] = 3.0
    t.radius = np.array([3.0, np.nextafter(3.0, 0.0)])
    lam, fused, _, _ = one_pass(t)
    assert fused.tolist() == [1, 0]
    assert lam[0].tolist() == t.b[0].tolist()
    assert (np.linalg.norm(lam, axis=1) <= 3.0).all()


def test_a_pass_over_no_edges():
    none, empty = np.empty((0, 2)), np.empty(0)
    sums, work = np.full((3, 2), 7.0), np.empty((1, 3, 2))
    edge, fused = np.empty((0, 2), np.int32), np.empty(0, np.uint8)
    assert kernel.edge_pass(np.ones((3, 2)), edge, empty, empty, 1.7, none, fused, sums, work, 2) == 0.0
    assert not sums.any()


@pytest.mark.parametrize("q", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("blocks", [1, 2, 5, 16])
def test_threads_leave_a_pass_as_it_is(blocks, q):
    t = random_pass(blocks, q, True, 30, 900)
    alone = one_pass(t, 1.7, blocks)
    for n_threads in (2, 3):
        for ours, theirs in zip(one_pass(t, 1.7, blocks, n_threads), alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    whole = one_pass(t, 1.7)
    for k, exact in enumerate((True, True, False, False)):
        np.testing.assert_allclose(alone[k], whole[k], rtol=0 if exact else 1e-12, atol=0 if exact else 1e-11)


def test_more_blocks_than_edges():
    t = random_pass(0, 3, True, count=3)
    check_pass(t, 1.0, blocks=8, n_threads=3)


# ---- terms of a Newton system ----


def random_terms(seed, q, zero_node):
    """A state of the augmented Lagrangian: some edges inside their ball, some outside."""
    rng = np.random.default_rng(seed)
    m, count = int(rng.integers(2, 7)), int(rng.integers(1, 15))
    lam = rng.normal(size=(count, q))
    return SimpleNamespace(
        m=m,
        q=q,
        theta=rng.normal(size=(m, q)),
        edge=random_edges(rng, m, count, zero_node),
        radius=rng.uniform(0.2, 4.0, count),
        sigma=rng.uniform(0.1, 2.0, count),
        lam=lam,
    )


def terms(t, theta, hessian=NO_HESSIAN, extra=0):
    """Value, new duals, flags and gradient; `extra` rows of the gradient belong to others."""
    new, fused, gradient = np.empty_like(t.lam), np.zeros(len(t.lam), np.uint8), np.zeros((t.m + extra, t.q))
    value = kernel.newton_terms(theta, t.edge, t.radius, t.sigma, t.lam, new, fused, gradient, hessian)
    return value, new, fused, gradient


@pytest.mark.parametrize("zero_node", [False, True])
@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_terms_are_projections_and_their_moreau_envelope(seed, q, zero_node):
    t = random_terms(seed, q, zero_node)
    value, new, fused, gradient = terms(t, t.theta, extra=1)
    D = incidence(t.edge, t.m)
    pushed = t.lam + t.sigma[:, None] * (D @ t.theta)
    norm = np.linalg.norm(pushed, axis=1)
    expected = pushed * np.minimum(1.0, t.radius / norm)[:, None]
    np.testing.assert_allclose(new, expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(fused, norm <= t.radius)
    np.testing.assert_allclose(gradient[: t.m], D.T @ expected, rtol=1e-12, atol=1e-13)
    assert not gradient[t.m].any()
    outside = ((pushed - expected) ** 2).sum(axis=1)
    envelope = ((norm**2 - outside - (t.lam**2).sum(axis=1)) / (2 * t.sigma)).sum()
    assert value == pytest.approx(envelope, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("zero_node", [False, True])
@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_gradient_and_hessian_are_differences(seed, q, zero_node):
    t = random_terms(seed, q, zero_node)
    size, step = t.m * q, 1e-6
    hessian = np.zeros((size + q, size + q))
    _, _, _, gradient = terms(t, t.theta, hessian)
    moves = step * np.eye(size).reshape(size, t.m, q)
    up, down = ([terms(t, t.theta + sign * move) for move in moves] for sign in (1.0, -1.0))
    slope = [(a[0] - b[0]) / (2 * step) for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(gradient.ravel(), slope, rtol=0, atol=1e-7)
    curve = [(a[3] - b[3]).ravel() / (2 * step) for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(hessian[:size, :size], curve, rtol=0, atol=1e-6)
    np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=1e-14)
    assert not hessian[size:].any()
    assert np.linalg.eigvalsh(hessian).min() >= -1e-12


def test_terms_are_added():
    t = random_terms(3, 2, True)
    once, twice = np.zeros((t.m, 2)), np.zeros((t.m, 2))
    hessians = np.zeros((2 * t.m, 2 * t.m)), np.zeros((2 * t.m, 2 * t.m))
    new, fused = np.empty_like(t.lam), np.zeros(len(t.lam), np.uint8)
    for gradient, hessian, times in ((once, hessians[0], 1), (twice, hessians[1], 2)):
        for _ in range(times):
            kernel.newton_terms(t.theta, t.edge, t.radius, t.sigma, t.lam, new, fused, gradient, hessian)
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-13)
    np.testing.assert_allclose(hessians[1], 2 * hessians[0], rtol=1e-13)


def test_no_edges_have_no_terms():
    gradient = np.ones((3, 2))
    none, empty = np.empty((0, 2)), np.empty(0)
    edge, fused = np.empty((0, 2), np.int32), np.empty(0, np.uint8)
    value = kernel.newton_terms(np.ones((3, 2)), edge, empty, empty, none, none, fused, gradient, NO_HESSIAN)
    assert value == 0.0
    assert (gradient == 1.0).all()


def test_an_edge_without_radius_is_fused_only_at_nought():
    edge, sigma, lam = np.array([[0, 1]], np.int32), np.ones(1), np.zeros((1, 2))
    for theta, flag in ((np.ones((2, 2)), 1), (np.eye(2), 0)):
        new, fused, gradient = np.ones((1, 2)), np.zeros(1, np.uint8), np.zeros((2, 2))
        assert (
            kernel.newton_terms(theta, edge, np.zeros(1), sigma, lam, new, fused, gradient, NO_HESSIAN) == 0.0
        )
        assert fused[0] == flag
        assert not new.any()
        assert not gradient.any()


def test_too_many_classes():
    theta, edge, one, lam = np.zeros((2, 65)), np.array([[0, 1]], np.int32), np.ones(1), np.zeros((1, 65))
    with pytest.raises(ValueError, match="at most 64 numbers per node, got 65"):
        kernel.newton_terms(
            theta, edge, one, one, lam, lam.copy(), np.zeros(1, np.uint8), theta.copy(), NO_HESSIAN
        )


# ---- components ----


@pytest.mark.parametrize("seed", range(30))
def test_components_equal_scipy(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    edge = random_edges(rng, n, int(rng.integers(0, 2 * n)), False)
    if seed % 2:
        edge = np.ascontiguousarray(edge[:, ::-1])
    joined = (rng.random(len(edge)) < 0.5).astype(np.uint8)
    label, count = kernel.components(n, edge, joined)
    some = joined > 0
    graph = sparse.coo_array((np.ones(some.sum()), (edge[some, 0], edge[some, 1])), shape=(n, n))
    expected_count, expected = connected_components(graph, directed=False)
    _, first, place = np.unique(expected, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(label, np.argsort(np.argsort(first))[place])
    assert (label.dtype, count) == (np.int32, expected_count)


def test_components_of_nothing_and_of_a_long_chain():
    none = np.empty((0, 2), np.int32), np.empty(0, np.uint8)
    label, count = kernel.components(3, *none)
    assert (label.tolist(), count) == ([0, 1, 2], 3)
    label, count = kernel.components(0, *none)
    assert (label.tolist(), count) == ([], 0)
    n = 50_000
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)[::-1].copy()
    label, count = kernel.components(n, chain, np.ones(n - 1, np.uint8))
    assert (label.any(), count) == (False, 1)


# ---- flows inside clusters ----


def flows(load, edge, radius, clusters=None, least=1e-16, passes=4000, lam=None, aggregates=()):
    """Call the kernel; `clusters` are the nodes of each, one cluster of all nodes if not given; edges must be
    in their order.
    """
    d, q = load.shape
    count = len(edge)
    clusters = [list(range(d))] if clusters is None else clusters
    owner = {node: k for k, nodes in enumerate(clusters) for node in nodes}
    own = np.array([owner.get(i, owner.get(j)) for i, j in edge], int)
    assert (np.diff(own) >= 0).all()
    out = SimpleNamespace(
        lam=np.zeros((count, q)) if lam is None else lam.copy(),
        saturated=np.zeros(count, np.uint8),
        residual=np.full((d + 1, q), 7.0),
        status=np.full(len(clusters), -1, np.int32),
    )
    kernel.flows(
        load,
        edge,
        radius,
        np.searchsorted(own, np.arange(len(clusters) + 1)).astype(np.intp),
        np.concatenate(clusters).astype(np.int32),
        np.cumsum([0, *map(len, clusters)]).astype(np.intp),
        np.full(len(clusters), least),
        passes,
        out.lam,
        out.saturated,
        out.residual,
        out.status,
        np.empty((2, count, q)),
        np.empty(count),
        np.empty(d + 1),
        *aggregates,
    )
    assert (np.linalg.norm(out.lam, axis=1) <= radius * (1 + 1e-12)).all()
    return out


def connected(rng, d, more, zero_node=False):
    """A random tree on d nodes and some edges more; with a zero node, one more edge leads there."""
    tree = [(int(rng.integers(i)), i) for i in range(1, d)]
    rest = random_edges(rng, d, more, zero_node).tolist() if d > 1 else []
    return np.array([*tree, *rest, *([(0, d)] if zero_node else [])], np.int32).reshape(-1, 2)


@pytest.mark.parametrize("zero_node", [False, True])
@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_flows_that_exist_are_found(seed, q, zero_node):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 10))
    edge = connected(rng, d, d, zero_node)
    radius = rng.uniform(0.1, 2.0, len(edge))
    hidden = rng.normal(size=(len(edge), q))
    hidden *= (0.9 * radius / np.linalg.norm(hidden, axis=1))[:, None]
    D = incidence(edge, d)
    load = -D.T @ hidden
    found = flows(load, edge, radius, least=1e-14)
    assert found.status.tolist() == [0]
    np.testing.assert_allclose(found.residual[:d], load + D.T @ found.lam, rtol=0, atol=1e-13)
    assert (found.residual[:d] ** 2).sum() <= 1e-14
    assert not found.residual[d].any()
    # where the flow already fits, it is kept
    again = flows(load, edge, radius, least=1e-14, lam=hidden)
    np.testing.assert_array_equal(again.lam, hidden)
    assert again.status.tolist() == [0]


@pytest.mark.parametrize("zero_node", [False, True])
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_that_no_flow_exists_is_proved(seed, q, zero_node):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 10))
    edge = connected(rng, d, d, zero_node)
    radius = rng.uniform(0.1, 1.0, len(edge))
    # more leaves the first node than its edges carry
    load = np.zeros((d, q))
    load[0, 0] = 1.2 * radius[(edge == 0).any(axis=1)].sum()
    load[1:, 0] = -load[0, 0] / (d - 1)
    found = flows(load, edge, radius)
    assert found.status.tolist() == [1]
    away = -found.residual
    D = incidence(edge, d)
    assert (load * away[:d]).sum() + (radius * np.linalg.norm(D @ away[:d], axis=1)).sum() < 0


def test_loads_that_do_not_cancel_need_the_ground():
    load, chain = np.array([[1.0], [1.0]]), np.array([[0, 1]], np.int32)
    assert flows(load, chain, np.array([5.0])).status.tolist() == [1]
    with_zero_node = np.array([[0, 1], [1, 2]], np.int32)
    assert flows(load, with_zero_node, np.array([5.0, 5.0])).status.tolist() == [0]
    assert flows(load, with_zero_node, np.array([5.0, 1.5])).status.tolist() == [1]


def test_the_narrow_edge_is_saturated():
    """A chain of four: two units must go from the first half to the second, over an edge that carries one."""
    chain = np.array([[0, 1], [1, 2], [2, 3]], np.int32)
    load = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    found = flows(load, chain, np.array([9.0, 1.0, 9.0]))
    assert found.status.tolist() == [1]
    assert found.saturated.tolist() == [0, 1, 0]


@pytest.mark.parametrize("passes", [0, 1, 3])
def test_what_is_not_known_after_all_passes(passes):
    """One unit must pass a chain of twenty; so few passes neither carry it nor prove that nothing can."""
    d = 20
    chain = np.stack([np.arange(d - 1), np.arange(1, d)], axis=1).astype(np.int32)
    load = np.zeros((d, 1))
    load[0], load[-1] = 1.0, -1.0
    assert flows(load, chain, np.full(d - 1, 1.5), passes=passes).status.tolist() == [2]
    assert flows(load, chain, np.full(d - 1, 1.5), passes=4000).status.tolist() == [0]


@pytest.mark.parametrize("seed", range(40))
def test_statuses_equal_bounded_least_squares(seed):
    """With one number per node the balls are intervals, and the least residual is SciPy's."""
    rng = np.random.default_rng(seed)
    d, zero_node = int(rng.integers(2, 9)), bool(rng.integers(2))
    edge = connected(rng, d, int(rng.integers(0, d)), zero_node)
    radius = rng.uniform(0.1, 1.5, len(edge))
    load = rng.normal(size=(d, 1))
    if not zero_node or rng.random() < 0.5:
        load -= load.mean()
    D = incidence(edge, d)
    best = lsq_linear(D.T, -load[:, 0], (-radius, radius), tol=1e-14, max_iter=1000)
    found = flows(load, edge, radius, least=1e-12)
    assert found.status.tolist() == [int(2 * best.cost > 1e-10)]


def test_clusters_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    d = 9
    clusters = [[4, 0, 2], [1], [], [3, 5, 6, 7, 8]]
    edge = np.array([[0, 4], [2, 4], [0, 2], [3, 5], [5, 6], [6, 7], [7, 8], [8, d]], np.int32)
    radius = rng.uniform(1.0, 2.0, len(edge))
    load = rng.normal(size=(d, 2))
    load[[0, 2, 4]] -= load[[0, 2, 4]].mean(axis=0)
    load[1] = 0.0
    load[[3, 5]] = [[1e3, 0.0], [-1e3, 0.0]]
    together = flows(load, edge, radius, clusters)
    assert together.status.tolist() == [0, 0, 0, 1]
    for k, nodes in ((0, clusters[0]), (3, clusters[3])):
        some = np.isin(edge[:, 0], nodes)
        alone = flows(load, edge[some], radius[some], [nodes])
        np.testing.assert_array_equal(alone.lam, together.lam[some])
        np.testing.assert_array_equal(alone.residual[nodes], together.residual[nodes])
        assert alone.status[0] == together.status[k]


def test_a_lone_node_holds_only_without_a_load():
    none = np.empty((0, 2), np.int32), np.empty(0)
    assert flows(np.zeros((1, 2)), *none).status.tolist() == [0]
    assert flows(np.ones((1, 2)), *none).status.tolist() == [1]


# ---- flows with aggregates ----


def whole_blocks(d, edge, radius, size):
    """Aggregates of consecutive nodes of one cluster of d nodes, and the inverse of their Laplacian."""
    label = (np.arange(d) // size).astype(np.int32)
    n, D = int(label.max()) + 1, incidence(edge, d)
    capacity = abs(D).T @ radius
    step = radius / np.append(capacity, 0.0)[edge].sum(axis=1)
    member = (label[:, None] == np.arange(n)).astype(float)
    laplacian = member.T @ (D.T * step) @ D @ member
    return (
        label,
        np.array([n], np.intp),
        np.linalg.inv(laplacian + (0.0 if (edge == d).any() else 1.0 / n)).ravel(),
    )


@pytest.mark.parametrize("zero_node", [False, True])
@pytest.mark.parametrize("q", [1, 3, 4, 7, 8, 10, 17])
@pytest.mark.parametrize("seed", range(3))
def test_aggregates_find_what_plain_steps_find(seed, q, zero_node):
    rng = np.random.default_rng(seed)
    d = 12
    edge = connected(rng, d, d, zero_node)
    radius = rng.uniform(0.5, 2.0, len(edge))
    hidden = rng.normal(size=(len(edge), q))
    hidden *= (0.8 * radius / np.linalg.norm(hidden, axis=1))[:, None]
    D = incidence(edge, d)
    for scale, status in ((1.0, 0), (20.0, 1)):
        load = -scale * D.T @ hidden
        plain = flows(load, edge, radius, least=1e-12)
        potential = np.full((d + 1, q), 5.0)
        found = flows(
            load, edge, radius, least=1e-12, aggregates=(*whole_blocks(d, edge, radius, 3), potential)
        )
        assert plain.status.tolist() == found.status.tolist() == [status]
        np.testing.assert_allclose(found.residual[:d], load + D.T @ found.lam, rtol=0, atol=1e-12 * scale)
        assert not potential[d].any()
    # the potential proves that there is no flow
    assert -(load * potential[:d]).sum() + (radius * np.linalg.norm(D @ potential[:d], axis=1)).sum() < 0


def test_aggregates_take_flow_far():
    """One unit must pass a chain of a thousand nodes: plain steps move it by one node each."""
    d = 1000
    chain = np.stack([np.arange(d - 1), np.arange(1, d)], axis=1).astype(np.int32)
    load, radius = np.zeros((d, 1)), np.full(d - 1, 1.5)
    load[0], load[-1] = 1.0, -1.0
    aggregates = whole_blocks(d, chain, radius, 10)
    assert flows(load, chain, radius, least=1e-8, passes=200).status.tolist() == [2]
    assert flows(load, chain, radius, least=1e-8, passes=200, aggregates=aggregates).status.tolist() == [0]


@pytest.mark.parametrize("q", [1, 2, 5, 8, 9, 16, 19])
def test_a_step_of_the_flows_equals_numpy(q):
    """From flows without momentum: a projected gradient step with the steps r_e / (R_i + R_j)."""
    rng = np.random.default_rng(q)
    d = 9
    edge = connected(rng, d, d)
    radius, load = rng.uniform(0.1, 1.0, len(edge)), 0.1 * rng.normal(size=(d, q))
    lam = rng.normal(size=(len(edge), q))
    lam *= (0.9 * radius / np.linalg.norm(lam, axis=1))[:, None]
    D = incidence(edge, d)
    step = radius / (abs(D).T @ radius)[edge].sum(axis=1)
    moved = lam - step[:, None] * (D @ (load + D.T @ lam))
    norm = np.linalg.norm(moved, axis=1)
    found = flows(load, edge, radius, least=-1.0, passes=1, lam=lam)
    np.testing.assert_allclose(
        found.lam, moved * np.minimum(1.0, radius / norm)[:, None], rtol=1e-12, atol=1e-13
    )
    np.testing.assert_array_equal(found.saturated, norm > radius)


@pytest.mark.parametrize("wrong", ["aggregate", "parts", "inverse", "missing", "potential"])
def test_wrong_aggregates(wrong):
    chain, radius = np.array([[0, 1], [1, 2]], np.int32), np.ones(2)
    label, parts, inverse = whole_blocks(3, chain, radius, 1)
    given = {
        "aggregate": (label + 1, parts, inverse),
        "parts": (label, -parts, inverse),
        "inverse": (label, parts, inverse[:-1]),
        "missing": (None, parts, inverse),
        "potential": (label, parts, inverse, np.empty((3, 1))),
    }[wrong]
    with pytest.raises(ValueError, match="aggregate" if wrong == "missing" else wrong):
        flows(np.zeros((3, 1)), chain, radius, aggregates=given)
