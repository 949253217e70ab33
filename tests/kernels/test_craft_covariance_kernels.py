"""Kernels of covariances inside clusters: exact sums, choice of blocks, costs of rows, and buffers of exactly
the documented sizes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from craftc import MixedTable
from craftc._common.threads import aligned
from craftc._kernels import craft_covariance as kernel
from craftc._kernels import craft_cross_products as cross_kernel
from craftc._kernels.craft import scratch_size as tables_scratch
from craftc.table.moments import integer_grid
from tests.common import random_table
from tests.estimators.covariance_cases import NO_WEIGHT, clusters_of, encoding_of, slanted, table_of
from tests.kernels.test_craft_buffers import guarded, untouched


def signed(words):
    """A Python integer from two 64-bit words."""
    return int(words[1]) * 2**64 + int(words[0]) % 2**64


def products(table, weight, labels, grid, columns, conditionals, n_threads):
    """(K, width) sums of the clusters of rows, in buffers of exactly the documented sizes."""
    K, P = int(labels.max()) + 1, len(columns)
    width = cross_kernel.cross_width(P)
    buffers = [
        guarded(n_threads * K * width, np.int64),
        guarded(K * width, np.int64),
        guarded(n_threads * P, np.int64),
        guarded(n_threads * cross_kernel.room_size(P)),
    ]
    (partial, _), (cross, _), (cells, _), (room, _) = buffers
    partial[:], cross[:] = 0, 0
    cross_kernel.cross_products(
        table.numeric,
        weight,
        labels,
        grid,
        columns,
        conditionals,
        partial.reshape(n_threads, K, width),
        cross.reshape(K, width),
        cells.reshape(n_threads, P),
        room.reshape(n_threads, -1),
        n_threads,
    )
    assert all(untouched(*buffer) for buffer in buffers)
    assert not partial.any()
    return cross.reshape(K, width)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_cross_products_are_exact(dtype, weighted, n_threads):
    table = random_table(1, n=1100, p=3, q=0, missing=0.0, dtype=dtype)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 2**20, 1100) if weighted else NO_WEIGHT
    labels = rng.integers(-1, 2, 1100).astype(np.int32)
    grid, columns = integer_grid(table, weight), np.array([0, 2])
    cross = products(table, weight, labels, grid, columns, None, n_threads)
    q = [[round((float(x) - grid.centre[d]) * grid.scale[d]) for x in table.numeric[:, d]] for d in columns]
    w = weight.tolist() if weighted else [1] * 1100
    for k in range(2):
        rows = np.flatnonzero(labels == k).tolist()
        for t, (a, b) in enumerate([(0, 0), (1, 0), (1, 1)]):
            assert signed(cross[k, 2 * t : 2 * t + 2]) == sum(w[i] * q[a][i] * q[b][i] for i in rows)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_missing_cells_count_as_they_are_expected(weighted, n_threads):
    """Products, expected cells and divergences by conditional distributions; buffers of their exact size."""
    rng, n, K, P = np.random.default_rng(0), 2100, 3, 4
    root = rng.normal(size=(K, P, P))
    covariance = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(P)
    labels = rng.integers(-1, K, n).astype(np.int32)
    X = rng.normal(size=(n, P)) @ root[0].T + 2.0
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:5] = np.nan
    weight = rng.integers(0, 5, n) if weighted else NO_WEIGHT
    table, columns = MixedTable.from_data(X), np.arange(P)
    grid, mean = integer_grid(table, weight), rng.normal(size=(K, P))
    centre, scale = np.nanmean(X, axis=0), 1.0 / np.nanstd(X, axis=0)
    conditionals = cross_kernel.Conditionals(centre, scale, mean, covariance)
    cross = products(table, weight, labels, grid, columns, conditionals, n_threads)
    squares, sums, divergence = np.zeros((K, P, P)), np.zeros((K, P)), np.zeros((K, P))
    z = (X - centre) * scale
    to_grid = grid.scale / scale
    for i in np.flatnonzero(labels >= 0):
        k, w = labels[i], weight[i] if weighted else 1
        m, o = np.flatnonzero(np.isnan(X[i])), np.flatnonzero(~np.isnan(X[i]))
        slope = covariance[k][np.ix_(m, o)] @ np.linalg.inv(covariance[k][np.ix_(o, o)])
        C, own = covariance[k][np.ix_(m, m)] - slope @ covariance[k][np.ix_(o, m)], z[i].copy()
        own[m] = mean[k, m] + slope @ (z[i, o] - mean[k, o])
        steps = own * to_grid + (centre - grid.centre) * grid.scale
        squares[k] += w * np.outer(steps, steps)
        squares[k][np.ix_(m, m)] += w * C * np.outer(to_grid[m], to_grid[m])
        sums[k, m] += w * steps[m]
        chain = np.diag(np.linalg.cholesky(C)) ** 2 if len(m) else np.empty(0)
        divergence[k, m] += w * 0.5 * (own[m] ** 2 + np.diag(C) - 1.0 - np.log(chain))
    found = np.array([signed(words) for words in cross.reshape(-1, 2)], float).reshape(K, -1)
    lower, pairs = np.tril_indices(P), P * (P + 1) // 2
    np.testing.assert_allclose(found[:, :pairs], squares[:, *lower], rtol=1e-9, atol=1e-9 * squares.max())
    np.testing.assert_allclose(found[:, pairs : pairs + P], sums, rtol=1e-9, atol=1e-9 * abs(sums).max())
    np.testing.assert_allclose(found[:, pairs + P :] / 2.0**32, divergence, rtol=1e-7)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_missing_cells_need_conditionals(n_threads):
    X = np.random.default_rng(0).normal(size=(5000, 3))
    X[4000, 1] = np.nan
    table = MixedTable.from_data(X)
    weight, columns = np.ones(len(X), np.int64), np.arange(3)
    grid = integer_grid(table, weight)
    sums = [np.zeros((n_threads, 2, cross_kernel.cross_width(3)), np.int64)]
    sums.append(np.zeros(sums[0].shape[1:], np.int64))
    room = np.zeros((n_threads, 3), np.int64), np.zeros((n_threads, cross_kernel.room_size(3)))

    def add(labels):
        cross_kernel.cross_products(
            table.numeric, weight, labels, grid, columns, None, *sums, *room, n_threads
        )

    labels = np.arange(len(X), dtype=np.int32) % 2
    with pytest.raises(ValueError, match="conditionals"):
        add(labels)
    assert not any(each.any() for each in sums)
    labels[4000] = -1
    add(labels)
    assert sums[1].any(axis=1).all()


def test_conditionals_need_positive_definite_matrices():
    with pytest.raises(ValueError, match="cluster 0 is not positive definite"):
        cross_kernel.Conditionals(np.zeros(2), np.ones(2), np.zeros((1, 2)), np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="centre or scale"):
        cross_kernel.Conditionals(np.zeros(3), np.ones(2), np.zeros((1, 2)), np.eye(2)[None])


def test_deviations_of_unions_are_those_of_their_rows():
    X, labels = slanted(0, n=60, K=3, p=3, q=0, noise=0)
    table, clusters = encoding_of(table_of(X)).apply(table_of(X)), clusters_of(table_of(X), labels)
    held, grid = clusters.covariances, clusters.moments.grid
    first, second = np.array([0, 0, 1, 2]), np.array([1, 2, 2, -1])
    mean, divergence, out = np.empty((4, 3)), np.empty((4, 3)), np.empty((4, 3, 3))
    cross_kernel.deviations(
        clusters.moments.groups,
        held.cross.sums,
        grid,
        held.cross.columns,
        np.ones(3),
        1.0,
        first,
        second,
        mean,
        divergence,
        out,
    )
    assert not divergence.any()
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        rows = table.numeric[(labels == a) | (labels == b)]
        q = [[round((float(x) - grid.centre[d]) * grid.scale[d]) for x in rows[:, d]] for d in range(3)]
        n = len(rows)
        for c in range(3):
            for d in range(3):
                exact = sum(x * y for x, y in zip(q[c], q[d], strict=True)) - Fraction(
                    sum(q[c]) * sum(q[d]), n
                )
                size = np.sqrt(out[i, c, c] * out[i, d, d])
                assert abs(out[i, c, d] - float(exact)) <= 1e-12 * size


def choose(deviation, weight, selected, rise, code, prior, h, full=False, short=0):
    P = len(deviation)
    work, block_of_work = guarded(kernel.choice_work_size(P) - short)
    out = [guarded(P, np.uint8), guarded(1)]
    kernel.choose_blocks(
        deviation[None],
        np.array([weight]),
        selected[None],
        rise[None],
        code[None],
        prior,
        h,
        full,
        work[None],
        out[0][0][None],
        out[1][0],
        1,
    )
    assert untouched(work, block_of_work)
    assert all(untouched(*pair) for pair in out)
    return out[0][0].astype(bool), float(out[1][0][0])


def correlations(rng, P):
    """A regular matrix with unit diagonal."""
    A = rng.normal(size=(3 * P, P))
    R = A.T @ A / np.sqrt(np.outer((A * A).sum(axis=0), (A * A).sum(axis=0)))
    np.fill_diagonal(R, 1.0)
    return R


def saving_of(deviation, weight, selected, rise, code, prior, h, columns):
    """What the columns save, with determinants."""
    R, added = prior[np.ix_(columns, columns)], np.count_nonzero(selected[columns] == 0)
    C = (deviation[np.ix_(columns, columns)] + R) / (weight + 1.0)
    value = (weight + 1.0) / 2 * (np.log(np.diag(C)).sum() - np.linalg.slogdet(C)[1])
    value += np.linalg.slogdet(R)[1] / 2 - len(columns) * (len(columns) - 1) / 2 * h
    return value - rise[columns].sum() - code[added]


@pytest.mark.parametrize("m", [0, 1, 4])
def test_log_norms(m):
    """Columns of three and of seven levels."""
    rng, lengths = np.random.default_rng(0), np.array([3, 7])
    score, share = rng.normal(size=(2, 7)), rng.dirichlet(np.full(7, 0.5), 2)
    log_level = np.log(share) + 0.5 * score**2
    mean, variance = score[:, 1] + rng.normal(0.0, 0.1, (m, 2)), rng.uniform(0.01, 0.5, (m, 2))
    weight, inside = rng.uniform(0.0, 500.0, m), rng.uniform(0.01, 0.2, 2)
    weight[:1] = 0.0
    expected, buffer = np.empty((m, 2)), guarded(2 * m)
    out = buffer[0]
    kernel.log_norms(mean, variance, weight, score, log_level, lengths, inside, out.reshape(m, 2))
    for i in range(m):
        for d, T in enumerate(lengths):
            own = norm.pdf(score[d, :T], mean[i, d], np.sqrt(variance[i, d])) / norm.pdf(score[d, :T])
            log_Z = np.log((share[d, :T] * own).sum()) - 0.5 * (1.0 / variance[i, d] - 1.0) * inside[d]
            expected[i, d] = max(0.0, log_Z - max(0.1, 3.0 / np.sqrt(max(weight[i], 1e-300))))
    np.testing.assert_allclose(out.reshape(m, 2), expected, rtol=1e-9, atol=1e-12)
    assert untouched(*buffer)
    assert m < 4 or expected.any()


@pytest.mark.parametrize("P", [2, 3, 6])
@pytest.mark.parametrize("seed", range(10))
def test_no_single_column_can_leave(P, seed):
    """No block with one column fewer is shorter; the saving is that of the formula."""
    rng = np.random.default_rng([seed, P])
    A = rng.normal(size=(80, P)) @ (np.eye(P) + rng.normal(size=(P, P)) * rng.integers(0, 2, (P, P)))
    selected = rng.integers(0, 2, P).astype(np.uint8)
    rise, code = rng.uniform(-1, 20, P), np.concatenate([[0.0], np.cumsum(rng.uniform(0, 1, P))])
    given = A.T @ A, 80.0, selected, rise, code, correlations(rng, P), 2.0
    block, value = choose(*given)
    columns = np.flatnonzero(block)
    if len(columns) < 2:
        assert value == 0.0
        assert len(columns) == 0
        assert P > 2 or saving_of(*given, np.array([0, 1])) < 1e-6
    else:
        assert value == pytest.approx(saving_of(*given, columns), rel=1e-9)
        if len(columns) > 2:
            assert all(saving_of(*given, np.delete(columns, i)) <= value + 1e-8 for i in range(len(columns)))
    every, value = choose(*given, full=True)
    assert every.all()
    assert value == pytest.approx(saving_of(*given, np.arange(P)), rel=1e-9)


@pytest.mark.parametrize("P", [2, 5])
def test_a_group_without_rows_saves_nothing(P):
    """Its covariance is the prior, which it does not pay for."""
    rng = np.random.default_rng(P)
    given = np.zeros((P, P)), 0.0, np.ones(P, np.uint8), np.zeros(P), np.zeros(P + 1), correlations(rng, P)
    assert choose(*given, 0.0, full=True)[1] == pytest.approx(0.0, abs=1e-12)
    block, value = choose(*given, 0.0)
    assert not block.any()
    assert value == 0.0
    assert choose(*given, 1.5, full=True)[1] == pytest.approx(-1.5 * P * (P - 1) / 2)


def test_columns_that_repeat_others():
    """The prior makes every covariance regular, so that a block may hold columns that others determine."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 3))
    A = np.column_stack([A[:, 0], 3 * A[:, 0], A[:, 1], A[:, 0] - A[:, 1], A[:, 2], np.zeros(50)])
    A -= A.mean(axis=0)
    sd = np.maximum(A.std(axis=0), 1e-300)
    prior = 0.95 * (A / sd).T @ (A / sd) / 50
    np.fill_diagonal(prior, 1.0)
    given = A.T @ A, 50.0, np.ones(6, np.uint8), np.zeros(6), np.zeros(7), prior, 0.0
    block, value = choose(*given, full=True)
    assert block.all()
    assert value == pytest.approx(saving_of(*given, np.arange(6)), rel=1e-7)
    block, value = choose(*given)
    assert {0, 1, 2, 3} <= {*np.flatnonzero(block).tolist()}
    assert value == pytest.approx(saving_of(*given, np.flatnonzero(block)), rel=1e-7)


def test_a_singular_group_has_no_block():
    """A prior without a factor is none of the package: nothing is chosen."""
    given = np.eye(2), 5.0, np.ones(2, np.uint8), np.zeros(2), np.zeros(3), np.ones((2, 2)), 1.0
    block, value = choose(*given)
    assert not block.any()
    assert value == 0.0


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_groups_are_chosen_one_by_one(n_threads):
    """The same bits for any number of threads, and alone."""
    rng, m, P = np.random.default_rng(0), 7, 4
    A = rng.normal(size=(m, 40, P)) @ (np.eye(P) + rng.normal(size=(m, P, P)))
    deviation, weight = np.einsum("knc,knd->kcd", A, A), rng.uniform(5, 90, m)
    selected, rise = rng.integers(0, 2, (m, P)).astype(np.uint8), rng.uniform(-1, 9, (m, P))
    code, prior = np.cumsum(rng.uniform(0, 1, (m, P + 1)), axis=1), correlations(rng, P)
    block, saving = np.empty((m, P), np.uint8), np.empty(m)
    work = np.empty((n_threads, kernel.choice_work_size(P)))
    kernel.choose_blocks(
        deviation, weight, selected, rise, code, prior, 1.0, False, work, block, saving, n_threads
    )
    for k in range(m):
        own, value = choose(deviation[k], weight[k], selected[k], rise[k], code[k], prior, 1.0)
        assert value == saving[k]
        np.testing.assert_array_equal(own, block[k])


@pytest.mark.parametrize("p", [2, 5, 9])
@pytest.mark.parametrize("K", [1, 7, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tied", [False, True])
def test_the_scratch_is_what_the_costs_write(p, K, dtype, tied):
    """Guard words around scratch, labels and costs survive, with complete rows and with rows of missing
    cells.
    """
    rng = np.random.default_rng(0)
    X, _ = slanted(0, n=40 * K + 3, K=K, p=p, q=1, noise=0)
    table = table_of(X.astype(dtype), 1)
    labels = (np.arange(len(X)) % K).astype(np.int32)
    clusters, encoding = clusters_of(table, labels, "full", tied=tied), encoding_of(table)
    tables, blocks = clusters.tables(), clusters.covariances.blocks()
    X[rng.random(X.shape) < 0.3] = np.nan
    for source in (table, table_of(X.astype(dtype), 1)):
        rows = encoding.apply(source)
        size = kernel.scratch_size(tables, blocks)
        assert size > tables_scratch(tables)
        scratch, around = guarded(size)
        found, around_found = guarded(len(X) * K)
        kernel.costs(rows.numeric, rows.codes, tables, blocks, scratch[None], found.reshape(-1, K))
        assert untouched(scratch, around)
        assert untouched(found, around_found)
        names, around_names = guarded(len(X), np.int32)
        names[:] = -1
        kernel.assign(rows.numeric, rows.codes, NO_WEIGHT, tables, blocks, names, scratch[None], 1)
        assert untouched(scratch, around)
        assert untouched(names, around_names)
        np.testing.assert_array_equal(names, found.reshape(-1, K).argmin(axis=1))


def test_short_buffers_are_refused():
    X, labels = slanted(0, n=60, K=2, p=3, q=0)
    table, clusters = encoding_of(table_of(X)).apply(table_of(X)), clusters_of(table_of(X), labels, "full")
    tables, blocks = clusters.tables(), clusters.covariances.blocks()
    short = np.empty((1, kernel.scratch_size(tables, blocks) - 1))
    with pytest.raises(ValueError, match="scratch"):
        kernel.costs(table.numeric, table.codes, tables, blocks, short, np.empty((60, 2)))
    with pytest.raises(ValueError, match="scratch"):
        kernel.assign(
            table.numeric, table.codes, NO_WEIGHT, tables, blocks, labels.astype(np.int32), short, 1
        )
    with pytest.raises(ValueError, match="buffers"):
        choose(np.eye(3), 5.0, np.ones(3, np.uint8), np.zeros(3), np.zeros(4), np.eye(3), 1.0, short=1)
    with pytest.raises(ValueError, match="prior"):
        choose(np.eye(3), 5.0, np.ones(3, np.uint8), np.zeros(3), np.zeros(4), np.eye(2), 1.0)
    with pytest.raises(ValueError, match="buffers"):
        cross_kernel.cross_products(
            table.numeric,
            NO_WEIGHT,
            labels.astype(np.int32),
            clusters.moments.grid,
            np.arange(4),
            None,
            np.zeros((1, 2, 36), np.int64),
            np.zeros((2, 36), np.int64),
            np.zeros((1, 3), np.int64),
            np.empty((1, 44)),
            1,
        )


def test_a_block_needs_a_positive_definite_matrix():
    with pytest.raises(ValueError, match="cluster 3 is not positive definite"):
        kernel.Blocks(
            np.arange(2),
            np.zeros(2),
            np.ones(2),
            np.zeros(2),
            np.ones(2),
            np.array([3]),
            np.ones((1, 2), np.uint8),
            np.zeros((1, 2)),
            np.ones((1, 2, 2)),
            np.zeros(2),
        )
    with pytest.raises(ValueError, match="one row of every array"):
        kernel.Blocks(
            np.arange(2),
            np.zeros(2),
            np.ones(2),
            np.zeros(2),
            np.ones(2),
            np.array([3]),
            np.ones((1, 1), np.uint8),
            np.zeros((1, 2)),
            np.ones((1, 2, 2)),
            np.zeros(2),
        )


@pytest.mark.parametrize("tied", [False, True])
def test_costs_of_complete_rows_in_blocks(tied):
    """Those of every column given the earlier ones, of its level, and of the size."""
    X, labels = slanted(0, n=60, K=2, p=3, q=0, noise=0)
    table = encoding_of(table_of(X)).apply(table_of(X))
    clusters = clusters_of(table_of(X), labels, "full", tied=tied)
    held, rows = clusters.covariances, np.arange(60)
    assert held.block.all()
    z = (table.numeric - held.centre) * held.scale
    for k in range(2):
        precision = np.diag(np.linalg.inv(held.matrix[k]))
        of_levels = sum(
            0.5 * (precision[d] - 1.0) * held.inside[d] + excess[table.codes[rows, d]]
            for d, (_, excess) in enumerate(held.excess)
        )
        size = np.log(clusters.moments.sizes[k] / 60)
        expected = held.conditional_costs(z, k).sum(axis=1) + of_levels - size
        np.testing.assert_allclose(clusters.row_costs(table)[:, k], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("K", [2, 8, 11])
def test_rows_whitened_once_cost_what_they_cost_cluster_by_cluster(K):
    """Under a covariance that all clusters share, with and without missing cells, in whole and part
    tiles.
    """
    X, _ = slanted(1, n=30 * K + 5, K=K, p=4, q=1, noise=0)
    table = table_of(X, 1)
    clusters = clusters_of(table, (np.arange(len(X)) % K).astype(np.int32), "full", tied=True)
    tables, once = clusters.tables(), clusters.covariances.blocks()
    shared = once.columns, once.centre, once.scale, once.shift, once.precision
    own = (array[::-1].copy() for array in (once.cluster, once.member, once.mean, once.covariance))
    each = kernel.Blocks(*shared, *own, once.inside)  # in another order: rows are whitened for every cluster
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    rows = encoding_of(table).apply(table_of(X, 1))
    costs = np.empty((2, len(X), K))
    for blocks, out in zip((once, each), costs, strict=True):
        scratch = aligned((1, kernel.scratch_size(tables, blocks)))
        kernel.costs(rows.numeric, rows.codes, tables, blocks, scratch, out)
    np.testing.assert_allclose(*costs, rtol=1e-11, atol=1e-9)
