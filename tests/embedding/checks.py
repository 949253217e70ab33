"""What a downstream extension must see, run in a process of its own: ``python checks.py MODULE FOLDER``.

MODULE is an extension with one Python function per C function, FOLDER the place craftc must have been
imported from.
"""

from __future__ import annotations

import importlib
import itertools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

OK, BAD_SIZE, BAD_TYPE, NO_POINTER, BAD_CODE, OFF_GRID, BAD_EDGE = range(0, -7, -1)


def same(found, expected):
    """Equal to the last bit, NaN included."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"), (found, expected)


def eight_lanes(x, centre):
    """The squared distance as the library defines it, one operation after the other."""
    lanes = [0.0] * 8
    for d, (a, b) in enumerate(zip(x.tolist(), centre.tolist(), strict=True)):
        lanes[d % 8] += (a - b) * (a - b)
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]))


def nearest(module, x, centres, distances=True):
    labels = np.full(len(x), -7, np.int32)
    squared = np.full(len(x) if distances else 0, -7.0)
    assert module.nearest(x, centres, labels, squared) == OK
    return labels, squared


def check_versions(module):
    from craftc._kernels import embed, parallel

    version, level = module.version()
    assert version == embed.API_VERSION == 1
    assert {0: "baseline", 3: "v3", 4: "v4"}[level] == parallel.simd()


def check_nearest_is_the_formula(module):
    rng = np.random.default_rng(0)
    for dtype, (n, K, D) in itertools.product(
        (np.float64, np.float32), ((1, 1, 1), (9, 3, 5), (70, 17, 8), (133, 6, 19), (40, 70, 3))
    ):
        centres = rng.normal(size=(K, D))
        centres[K // 2] = centres[0]  # a tie goes to the lower number
        centres[-1] = centres[K // 3] * (1 + 1e-7)  # two centres that are equal in single precision
        x = (
            centres[rng.integers(K, size=n)] + rng.normal(size=(n, D)) * rng.choice([0.0, 1e-9, 1.0], (n, 1))
        ).astype(dtype)
        table = np.array([[eight_lanes(row, centre) for centre in centres] for row in x])
        labels, squared = nearest(module, x, centres)
        same(labels, table.argmin(axis=1).astype(np.int32))
        same(squared, table.min(axis=1))
        same(nearest(module, x, centres, distances=False)[0], labels)
        # wide strides, and block by block
        wide, wide_centres = np.full((n, D + 3), np.nan, dtype), np.full((K, D + 1), np.nan)
        wide[:, :D], wide_centres[:, :D] = x, centres
        same(nearest(module, wide[:, :D], wide_centres[:, :D])[1], squared)
        blocks = [nearest(module, x[i : i + 5], centres) for i in range(0, n, 5)]
        same(np.concatenate([block[0] for block in blocks]), labels)
        same(np.concatenate([block[1] for block in blocks]), squared)


def check_nearest_far_out(module):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(8, 4))
    x = rng.normal(size=(20, 4))
    x[3, 1], x[4, 2], x[5, 0] = np.nan, np.inf, 1e200
    labels, squared = nearest(module, x, centres)
    same(labels[3:6], np.array([-1, -1, -1], np.int32))
    assert not np.isfinite(squared[3:6]).any()
    rest = np.delete(np.arange(20), [3, 4, 5])
    same(labels[rest], nearest(module, x[rest], centres)[0])
    for factor, shift in ((1e-160, 0.0), (1e150, 0.0), (1.0, 1e9)):  # far from one, far from zero
        table = np.array(
            [
                [eight_lanes(row, centre) for centre in centres * factor + shift]
                for row in x[rest] * factor + shift
            ]
        )
        labels, squared = nearest(module, x[rest] * factor + shift, centres * factor + shift)
        same(squared, table.min(axis=1))
        same(labels, table.argmin(axis=1).astype(np.int32))
    centres[5] = np.nan
    assert 5 not in nearest(module, x[rest], centres)[0]


def check_nearest_like_dpmeans(module):
    from craftc import DPMeans

    rng = np.random.default_rng(2)
    for dtype in (np.float64, np.float32):
        X = (rng.normal(size=(3000, 7)) + 6 * rng.integers(0, 2, (3000, 7))).astype(dtype)
        model = DPMeans(40.0).fit(X)
        assert model.n_clusters_ > 20
        labels, squared = nearest(module, X, np.ascontiguousarray(model.cluster_centers_))
        same(labels, model.predict(X))
        same(np.sqrt(squared), np.asarray(model.transform(X)).min(axis=1))


def check_bad_sizes(module):
    x, centres = np.zeros((2, 3)), np.zeros((2, 3))
    labels, squared = np.zeros(2, np.int32), np.zeros(2)
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(9), (2, 3), (16, 8))
    assert module.nearest(overlapping, centres, labels, squared) == BAD_SIZE
    assert module.nearest(x, overlapping, labels, squared) == BAD_SIZE
    low, high = np.array([1.0]), np.array([0.0])
    assert module.grid(low, high, np.zeros(1), np.zeros(1)) == BAD_SIZE
    assert module.grid(low, np.array([np.inf]), np.zeros(1), np.zeros(1)) == BAD_SIZE
    assert module.nearest(x[:0], centres, labels[:0], squared[:0]) == OK


def craft_models():
    """Mixed, numeric, categorical, single precision, many-level and paper models, each with its rows."""
    import pandas as pd

    from craftc import CRAFT, PaperCRAFT

    rng = np.random.default_rng(3)
    n = 400
    group = rng.integers(0, 3, n)
    frame = pd.DataFrame({f"v{d}": rng.normal(size=n) + 4 * (group == d) for d in range(4)})
    for d in range(3):
        frame[f"c{d}"] = np.where(rng.random(n) < 0.7, group, rng.integers(0, 4, n)).astype(str)
    with_missing = frame.mask(rng.random(frame.shape) < 0.1)
    many = pd.DataFrame({"a": frame["v0"], "b": [f"{k:03}" for k in np.arange(n) % 300], "c": frame["c0"]})
    diagonal: dict[str, Any] = {"covariance": "diagonal", "n_init": 2, "random_state": 0}
    yield CRAFT(**diagonal).fit(frame), frame
    yield PaperCRAFT(model="likelihood", n_init=2, random_state=0).fit(frame), frame
    yield CRAFT(**diagonal).fit(with_missing), with_missing
    yield (
        CRAFT(**diagonal).fit(with_missing[["v0", "v1", "v2", "v3"]]),
        with_missing[["v0", "v1", "v2", "v3"]],
    )
    yield CRAFT(**diagonal).fit(with_missing[["c0", "c1", "c2"]]), with_missing[["c0", "c1", "c2"]]
    yield CRAFT(**diagonal).fit(many), many
    single = frame.astype({f"v{d}": np.float32 for d in range(4)})
    yield CRAFT(**diagonal).fit(single), single
    yield PaperCRAFT(3, cluster_price=0.0, n_init=2, random_state=0).fit(frame), frame


def check_craft(module):
    from craftc.embed import CraftCosts

    seen = set()
    for model, rows in craft_models():
        tables = CraftCosts(model)
        table, K = tables.encode(rows), model.n_clusters_
        assert module.shape(tables.capsule) == (K, tables.n_numeric, tables.n_categorical)
        seen |= {table.numeric.dtype.name, table.codes.dtype.name, f"{min(K, 2)} or more"}
        expected = model.predict(rows)
        labels, least, costs = (
            np.full(len(table), -7, np.int32),
            np.zeros(len(table)),
            np.zeros((len(table), K + 2)),
        )
        assert module.craft(tables.capsule, table.numeric, table.codes, labels, least, costs[:, :K]) == OK
        same(labels, expected)
        same(least, costs[:, :K].min(axis=1))
        assert not costs[:, K:].any()
        own = model.transform(rows).astype(float)
        if getattr(model, "model", "likelihood") == "likelihood":
            # relative to the background: the distributions that clusters share, or that of the whole table
            background = model._fitted.clusters.background_costs(table)[:, None]
            seen.add("table" if hasattr(model, "model") else "pooled")
        else:
            background = (own - costs[:, :K])[:, :1]
        np.testing.assert_allclose(
            own, costs[:, :K] + background, rtol=1e-6 if table.numeric.dtype == np.float32 else 1e-12
        )
        # rows apart from each other, in blocks that are no tiles: the same bits
        x = np.full((len(table), tables.n_numeric + 2), np.nan, table.numeric.dtype)
        codes = np.full((len(table), tables.n_categorical + 1), 255, table.codes.dtype)
        x[:, : tables.n_numeric], codes[:, : tables.n_categorical] = table.numeric, table.codes
        again, least_again, costs_again = (
            np.zeros(len(table), np.int32),
            np.zeros(len(table)),
            np.zeros((len(table), K)),
        )
        for i in range(0, len(table), 13):
            block = slice(i, i + 13)
            status = module.craft(
                tables.capsule,
                x[block, : tables.n_numeric],
                codes[block, : tables.n_categorical],
                again[block],
                least_again[block],
                costs_again[block],
            )
            assert status == OK
        same(again, labels)
        same(least_again, least)
        same(costs_again, costs[:, :K])
    assert seen >= {"float32", "float64", "uint8", "uint16", "2 or more", "pooled", "table"}


def check_craft_keeps_its_tables(module):
    import gc

    from craftc.embed import CraftCosts

    model, rows = next(craft_models())
    expected = model.predict(rows)
    table, capsule = CraftCosts(model).encode(rows), CraftCosts(model).capsule
    labels, least, costs = (
        np.zeros(len(table), np.int32),
        np.zeros(len(table)),
        np.zeros((len(table), model.n_clusters_)),
    )
    del model
    gc.collect()
    _ = [np.full(10_000, np.nan) for _ in range(100)]  # takes the place of what was freed too early
    assert module.craft(capsule, table.numeric, table.codes, labels, least, costs) == OK
    same(labels, expected)
    codes = table.codes.copy()
    codes[9, 0] = 200
    assert module.craft(capsule, table.numeric, codes, labels, least, costs) == BAD_CODE
    for wrong in (object(), None):
        try:
            module.shape(wrong)
        except (ValueError, TypeError):
            continue
        raise AssertionError("something else passed for a capsule of tables")


def a_grid(module, x, n_levels):
    low, high = np.nanmin(x, axis=0).astype(float), np.nanmax(x, axis=0).astype(float)
    centre, scale = np.zeros((2, x.shape[1]))
    assert module.grid(low, high, centre, scale) == OK
    start = np.concatenate([[0], np.cumsum(np.add(n_levels, 1))])
    return centre, scale, start[:-1].astype(np.intp), int(start[-1])


def check_moments(module):
    from fractions import Fraction

    from craftc._kernels.moments import Grid, accumulate
    from craftc.table import MixedTable
    from craftc.table.moments import integer_grid

    rng = np.random.default_rng(4)
    for dtype in (np.float64, np.float32):
        x = (rng.normal(size=(60, 3)) * [1.0, 1e-6, 1e8] + [0.0, 5.0, 3e8]).astype(dtype)
        x[rng.random(x.shape) < 0.1] = np.nan
        codes = rng.integers(0, [3, 5], (60, 2)).astype(np.uint8)  # the last one: missing
        weight = rng.integers(1, 9, 60)
        where = a_grid(module, x, [2, 4])
        size = module.moments_size(*where)
        groups = np.zeros((2, size), np.int64)
        for i in rng.permutation(60):
            assert module.moments_add(*where, groups[i % 2], x[i], codes[i], int(weight[i])) == OK
        # the groups of the estimators, word by word
        grid = integer_grid(MixedTable.from_data(x, dtype=dtype), np.empty(0, np.int64))
        same(where[0], grid.centre)
        same(where[1], grid.scale)
        theirs = np.zeros_like(groups)
        labels = (np.arange(60) % 2).astype(np.int32)
        accumulate(x, codes, weight, labels, Grid(*where), np.zeros((0, *groups.shape), np.int64), theirs, 1)
        same(groups, theirs)
        mean, deviations = np.zeros((2, 3))
        for k in range(2):
            assert module.moments_mean(*where, groups[k], mean, deviations) == OK
            for d in range(3):
                centre, scale = Fraction(where[0][d]), Fraction(where[1][d])
                cells = [
                    (Fraction(round((float(x[i, d]) - where[0][d]) * where[1][d])), int(weight[i]))
                    for i in range(k, 60, 2)
                    if not np.isnan(x[i, d])
                ]
                total = sum(w for _, w in cells)
                middle = sum(w * q for q, w in cells) / total
                assert math.isclose(mean[d], float(centre + middle / scale), rel_tol=1e-15)
                assert math.isclose(
                    deviations[d],
                    float(sum(w * (q - middle) ** 2 for q, w in cells) / scale**2),
                    rel_tol=1e-14,
                )
        # out again, apart and together: nothing is left
        both = groups[0].copy()
        assert module.moments_merge(*where, both, groups[1], 1) == OK
        assert both[0] == weight.sum()
        for i in range(60):
            assert module.moments_add(*where, both, x[i], codes[i], -int(weight[i])) == OK
        assert not both.any()
        assert module.moments_merge(*where, groups[0], groups[0].copy(), -1) == OK
        assert not groups[0].any()
        assert module.moments_mean(*where, groups[0], mean, deviations) == OK
        assert np.isnan(mean).all()
        assert not deviations.any()
        # what is refused leaves nothing behind
        before = groups[1].copy()
        assert module.moments_add(*where, groups[1], x[0], np.array([0, 5], np.uint8), 1) == BAD_CODE
        assert (
            module.moments_add(*where, groups[1], np.array([0.0, np.inf, 0.0], dtype), codes[0], 1)
            == OFF_GRID
        )
        assert (
            module.moments_add(*where, groups[1], np.array([0.0, 5.0, 1e30], dtype), codes[0], 1) == OFF_GRID
        )
        same(groups[1], before)


def check_moments_like_craft(module):
    """The mean of every cluster, to the last bit."""
    from craftc import CRAFT

    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 3)) + 5 * rng.integers(0, 2, (500, 1))
    model = CRAFT(covariance="diagonal", n_init=2, random_state=0).fit(X)
    assert model.n_clusters_ > 1
    low, high, centre, scale = X.min(axis=0), X.max(axis=0), np.zeros(3), np.zeros(3)
    assert module.grid(low, high, centre, scale) == OK
    level = (np.zeros(1, np.intp), 2)  # and one column of one level
    mean, deviations, code = np.zeros(3), np.zeros(3), np.zeros(1, np.uint8)
    for k in range(model.n_clusters_):
        group = np.zeros(module.moments_size(centre, scale, *level), np.int64)
        for row in X[model.labels_ == k]:
            assert module.moments_add(centre, scale, *level, group, row, code, 1) == OK
        assert module.moments_mean(centre, scale, *level, group, mean, deviations) == OK
        same(mean, model.centers_[k])


def check_edges(module):
    from craftc._kernels import covariates

    rng = np.random.default_rng(6)
    for q in (1, 2, 3, 4, 7):
        m = 12
        pairs = np.array([(i, j) for i in range(m) for j in range(i + 1, m) if rng.random() < 0.6], np.int32)
        assert module.edges_check(pairs, m) == OK
        assert module.edges_check(pairs, m - 1) == BAD_EDGE
        assert module.edges_check(np.ascontiguousarray(pairs[::-1]), m) == BAD_EDGE
        assert module.edges_check(np.array([[1, 1]], np.int32), m) == BAD_EDGE
        assert module.edges_check(np.array([[-1, 1]], np.int32), m) == BAD_EDGE
        n = len(pairs)
        b, lam, radius, step = (
            rng.normal(size=(m, q)),
            rng.normal(size=(n, q)),
            rng.random(n) * 2,
            rng.random(n) + 0.5,
        )
        ours, fused, sums = lam.copy(), np.zeros(n, np.uint8), np.zeros((m, q))
        status, moved = module.edges_pass(b, pairs, radius, step, 1.6, ours, fused, 0, n, sums)
        assert status == OK
        v = lam + step[:, None] * (b[pairs[:, 0]] - b[pairs[:, 1]])
        size = np.sqrt((v * v).sum(axis=1))
        p = v * np.minimum(1.0, radius / size)[:, None]
        expected = np.zeros((m, q))
        np.add.at(expected, pairs[:, 0], p)
        np.subtract.at(expected, pairs[:, 1], p)
        np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ours, lam + 1.6 * (p - lam), rtol=1e-12, atol=1e-12)
        assert math.isclose(moved, (((p - lam) ** 2).sum(axis=1) / step).sum(), rel_tol=1e-12)
        same(fused, (size <= radius).astype(np.uint8))
        theirs, their_fused, their_sums = lam.copy(), np.zeros(n, np.uint8), np.zeros((m, q))
        their_moved = covariates.edge_pass(
            b, pairs, radius, step, 1.6, theirs, their_fused, their_sums, np.zeros((1, m, q)), 1
        )
        same(ours, theirs)
        same(sums, their_sums)
        assert moved == their_moved
        half = lam.copy()  # two blocks with sums of their own
        parts = np.zeros((2, m, q))
        two = sum(
            module.edges_pass(b, pairs, radius, step, 1.6, half, fused, *cut, part)[1]
            for cut, part in zip(((0, n // 2), (n // 2, n)), parts, strict=True)
        )
        same(half, ours)
        assert math.isclose(two, moved, rel_tol=1e-12)
        assert module.edges_pass(b, pairs, radius, step, 1.0, half, fused, 3, 2, sums)[0] == BAD_SIZE


def main(name, folder):
    import craftc

    at = Path(craftc.__file__).resolve().parent.parent
    assert at == Path(folder).resolve(), f"craftc comes from {at}, not from {folder}"
    module = importlib.import_module(name)
    checks = [check for title, check in sorted(globals().items()) if title.startswith("check_")]
    for check in checks:
        check(module)
    print(f"{len(checks)} checks")


if __name__ == "__main__":
    main(*sys.argv[1:])
