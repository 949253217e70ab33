"""Kernels that do several steps of the search of CRAFT at once: the same bits as the steps one by one."""

from __future__ import annotations

import numpy as np
import pytest

from craftc._kernels import craft_covariance as covariance_kernel
from craftc._kernels import craft_merges as merges_kernel
from craftc._kernels import craft_passes as passes_kernel
from craftc._kernels import craft_pooled as pooled_kernel
from craftc._kernels import craft_price as price_kernel
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.merges import MergeSplitSearch
from tests.kernels.test_craft_pooled import best_merge
from tests.level_cases import POOLED, mixed_case


def problem(seed, weighted=False, K=8, **shape):
    """A search, and a partition of its table into K random clusters."""
    found = mixed_case(seed, K=K, weighted=weighted, **({"n": 150, "q": 6} | shape))
    case = found.case
    rows = LocalRows(case.encoded, case.weight)
    config = FitConfig(rows, case.weight, case.background, POOLED, 20, seed, 1)
    search = MergeSplitSearch(config, 1)
    return search, search.partition(np.ascontiguousarray(found.labels, np.int32))


def state(part):
    K = part.K
    return (
        K,
        part.objective,
        part.groups[:K].copy(),
        part.mask[:K].copy(),
        part.cost[:K].copy(),
        part.shared.copy(),
        part.labels.copy(),
    )


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def merged_one_by_one(search, part, n_pairs=4):
    """Merges of a partition, each by kernels that do one step."""
    labels, deltas, fresh = part.labels.copy(), search.pair_deltas(part), True
    K, excess, groups, mask, cost, shared, _ = state(part)
    while K > 1:
        order = np.argsort(deltas, axis=None, kind="stable")[: min(n_pairs, K * (K - 1) // 2)]
        pairs = [divmod(int(at), K) for at in order]
        which, J, *after = best_merge(groups, mask, pairs[:1] if K > 20 else pairs, search.pricing)
        if K > 20 and excess - search._merge_tolerance <= J:
            which, J, *after = best_merge(groups, mask, pairs, search.pricing)
        if excess - search._merge_tolerance > J:
            i, j = pairs[which]
            (groups, mask, cost, shared), K, excess = after, K - 1, J
            deltas, fresh = np.delete(np.delete(deltas, j, 0), j, 1).copy(), False
            labels[labels == j] = i
            labels[labels > j] -= 1
            only = i
        elif fresh:
            break
        else:
            deltas, fresh, only = np.full((K, K), np.inf), True, -1
        pooled_kernel.use_shared(search.pricing, shared)
        union, parts = np.empty((1, groups.shape[1]), np.int64), price_kernel.parts_size(search.pricing)
        merges_kernel.pair_deltas(
            groups,
            cost,
            search.pricing,
            only,
            deltas,
            union,
            np.empty((len(groups), parts)),
            np.empty((1, parts)),
            mask[:1].copy(),
            1,
        )
    return K, excess, groups, mask, cost, shared, labels


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("seed", "K"), [*((seed, 8) for seed in range(8)), (8, 26), (9, 30)])
def test_merges_at_once_are_those_one_by_one(seed, K, weighted):
    search, part = problem(seed, weighted=weighted, K=K)
    before = part.K
    expected = merged_one_by_one(search, part)
    assert search.merge_while_cheaper(part) == (expected[0] < before)
    assert_same(state(part), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_passes_and_merges_by_turns_are_those_of_separate_calls(seed, weighted):
    search, part = problem(seed, weighted=weighted)
    other = search.copy(part)
    search._passes_and_merges(part)
    made, search.n_passes = search.n_passes, 0
    merged = True
    while merged:
        search.passes(other)
        merged = search.merge_while_cheaper(other)
    assert search.n_passes == made
    assert_same(state(part), state(other))
    assert part.converged
    assert other.converged


@pytest.mark.parametrize("seed", range(4))
def test_merges_and_splits_continue_where_a_call_has_ended(seed, monkeypatch):
    search, part = problem(seed)
    other = search.copy(part)
    search.merge_while_cheaper(part)
    proposed = [(k, split) for k, splits in enumerate(search.splits(part, range(part.K))) for split in splits]
    done = search._split(part, proposed, 1e-6, search.capacity)
    monkeypatch.setattr("craftc.craft.search.merges.at_once", lambda work: 1)
    search.merge_while_cheaper(other)
    assert search._split(other, proposed, 1e-6, search.capacity) == done
    assert_same(state(other), state(part))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_splits_at_once_are_those_one_by_one(seed, weighted):
    search, part = problem(seed, weighted=weighted)
    proposed = [(k, split) for k, splits in enumerate(search.splits(part, range(part.K))) for split in splits]
    _, excess, groups, mask, _, shared, labels = state(part)
    done = set()
    for k, split in proposed:
        if k in done:
            continue
        trial = np.concatenate([groups, split.groups[1:]])
        trial[k] = split.groups[0]
        tried = []
        for own in (split.mask, mask[[k, k]]):
            chosen, cost = np.concatenate([mask, own[1:]]), np.empty(len(trial))
            chosen[k] = own[0]
            work = np.empty((len(trial), price_kernel.parts_size(search.pricing)))
            J = pooled_kernel.price_partition(
                trial, search.pricing, pooled_kernel.EFFORTS["continue"], work, chosen, cost
            )
            tried.append((J, chosen, cost, search.pricing.shared.group.copy()))
        J, chosen, cost, pooled = min(tried, key=lambda one: one[0])
        if excess - search.split_tolerance > J:
            labels[split.moved.leaving(labels)] = len(groups)
            excess, groups, mask, shared, last_cost = J, trial, chosen, pooled, cost
            done.add(k)
    assert search._split(part, proposed, search.split_tolerance, search.config.max_clusters) == done
    found = state(part)
    assert_same((*found[:4], *found[5:]), (len(groups), excess, groups, mask, shared, labels))
    if done:
        np.testing.assert_array_equal(found[4], last_cost)


@pytest.mark.parametrize("shape", [{}, {"q": 1}, {"n": 9}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_splits_of_a_small_table_are_those_step_by_step(shape, weighted):
    search, part = problem(3, weighted, **shape)
    assert search._finder.small
    at_once = search.splits(part, range(part.K), at_any_price=True)
    search._finder.small = False
    for found, expected in zip(at_once, search.splits(part, range(part.K), at_any_price=True), strict=True):
        assert [split.delta for split in found] == [split.delta for split in expected]
        for one, other in zip(found, expected, strict=True):
            assert_same(
                (one.moved, one.groups, one.cost, one.mask),
                (other.moved, other.groups, other.cost, other.mask),
            )


@pytest.mark.parametrize("seed", range(5))
def test_savings_of_blocks(seed):
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(3, 30, 5)) @ rng.normal(size=(5, 5))
    matrix, block = np.einsum("kna,knb->kab", cells, cells) / 30, rng.integers(0, 2, (3, 5)).astype(np.uint8)
    block[0] = 0
    weight, saving, h = rng.uniform(5.0, 90.0, 3), np.empty(3), 0.7
    prior = 0.3 * np.ones((5, 5)) + 0.7 * np.diag(rng.uniform(0.5, 2.0, 5))
    covariance_kernel.block_savings(matrix, block, weight, prior, h, saving)
    assert saving[0] == 0.0
    for k in (1, 2):
        some = np.ix_(block[k] > 0, block[k] > 0)
        own, of_prior = matrix[k][some], np.linalg.slogdet(prior[some])[1]
        m, independent = len(own), np.log(np.diag(own)).sum()
        expected = (weight[k] + 1.0) / 2 * (independent - np.linalg.slogdet(own)[1]) - m * (m - 1) / 2 * h
        expected += of_prior / 2
        assert saving[k] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_arguments_are_checked():
    search, part = problem(0)
    pricing, K = search.pricing, part.K
    space, deltas, place = (
        merges_kernel.MergeSpace(pricing, K, 1),
        np.empty((K, K)),
        np.arange(K, dtype=np.int32),
    )
    arrays, pairs = (part.groups, part.mask, part.cost, part.shared), np.empty((4, 2), np.intp)

    def merge(K=K, deltas=deltas, space=space, pairs=pairs, n_threads=1):
        merges_kernel.merge_while_cheaper(
            *arrays, K, 0.0, deltas, 0, place, pricing, space, pairs, 1e-9, 1, 1, n_threads
        )

    for wrong in (
        {"K": 0},
        {"K": 99},
        {"deltas": deltas[1:, 1:].copy()},
        {"pairs": pairs[:0]},
        {"n_threads": 2},
    ):
        with pytest.raises(ValueError, match="fit"):
            merge(**wrong)
    with pytest.raises(ValueError, match="fit"):
        merge(space=merges_kernel.MergeSpace(pricing, K - 1, 1))
    with pytest.raises(ValueError, match="capacity"):
        merges_kernel.MergeSpace(pricing, 0, 1)
    own, table, room = search._space, search.rows.table, np.empty(9)

    def by_turns(labels=part.labels, K=K, path=room, shared=part.shared, space=space, n_pairs=4):
        passes_kernel.passes_and_merges(
            table.numeric,
            table.codes,
            search.rows.weight,
            labels,
            part.groups,
            K,
            pricing,
            8,
            0.0,
            own.slab,
            own.scratch,
            own.work,
            part.mask,
            part.cost,
            shared,
            path,
            space,
            n_pairs,
            1e-9,
        )

    outside = part.labels + np.int32(K)
    for wrong in (
        {"labels": part.labels[1:]},
        {"labels": outside},
        {"K": 99},
        {"path": room[:8]},
        {"shared": part.shared[1:]},
    ):
        with pytest.raises(ValueError, match=r"fit|from -1|small"):
            by_turns(**wrong)
    for wrong in ({"n_pairs": 0}, {"space": merges_kernel.MergeSpace(pricing, K - 1, 1)}):
        with pytest.raises(ValueError, match="fit"):
            by_turns(**wrong)
    halves, selected = np.zeros((1, 2, part.groups.shape[1]), np.int64), np.zeros((1, 2, pricing.D), np.uint8)
    outside, accepted = np.array([K]), np.empty(1, np.uint8)
    with pytest.raises(ValueError, match="clusters"):
        merges_kernel.split_while_cheaper(
            *arrays, K, 0.0, outside, halves, selected, pricing, space, K, 0.0, accepted
        )
    with pytest.raises(ValueError, match="positive definite"):
        covariance_kernel.block_savings(
            -np.ones((1, 2, 2)), np.ones((1, 2), np.uint8), np.ones(1), np.eye(2), 1.0, np.empty(1)
        )
    with pytest.raises(ValueError, match="positive definite"):
        covariance_kernel.block_savings(
            np.eye(2)[None], np.ones((1, 2), np.uint8), np.ones(1), np.ones((2, 2)), 1.0, np.empty(1)
        )
    with pytest.raises(ValueError, match="prior"):
        covariance_kernel.block_savings(
            np.eye(2)[None], np.ones((1, 2), np.uint8), np.ones(1), np.eye(3), 1.0, np.empty(1)
        )
