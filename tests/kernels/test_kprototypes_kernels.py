"""The kernels of k-prototypes against plain NumPy: costs of all dissimilarities, labels, moments, and moves
of rows.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from craftc._kernels import kprototypes as kernel
from craftc._kernels.moments import Grid, accumulate

NO_WEIGHT, NO_SUMS, NO_GROUPS = (
    np.empty(0, np.int64),
    np.empty((0, 0, 0), np.int64),
    np.empty((0, 0), np.int64),
)


class Setting:
    """Rows, prototypes, and moments of a random partition."""

    def __init__(
        self,
        seed,
        K,
        n=300,
        p=3,
        q=4,
        dtype=np.float64,
        wide=False,
        missing=0.1,
        weighted=False,
        binary=False,
    ):
        rng = np.random.default_rng(seed)
        self.n_levels = np.full(q, 2, np.intp) if binary else rng.integers(1, 6, q).astype(np.intp)
        self.X = rng.normal(size=(n, p)).astype(dtype)
        self.X[rng.random((n, p)) < missing] = np.nan
        codes = rng.integers(0, 99, (n, q)) % self.n_levels
        self.codes = np.where(rng.random((n, q)) < missing, self.n_levels, codes).astype(
            np.uint16 if wide else np.uint8
        )
        self.weight = rng.integers(0, 4, n) if weighted else NO_WEIGHT
        starts = np.concatenate([[0], np.cumsum(self.n_levels + 1)[:-1]]).astype(np.intp)[:q]
        self.grid = Grid(np.full(p, 0.25), np.full(p, 2.0**36), starts, int((self.n_levels + 1).sum()))
        self.means, self.modes = (
            rng.normal(size=(K, p)),
            (rng.integers(0, 99, (K, q)) % self.n_levels).astype(np.int32),
        )
        self.labels = rng.integers(0, K, n).astype(np.int32)
        self.groups = self.sums(self.labels)
        self.gamma = 0.7

    def sums(self, labels):
        groups = np.zeros((len(self.means), self.grid.width), np.int64)
        accumulate(self.X, self.codes, self.weight, labels, self.grid, groups[None].copy(), groups, 1)
        return groups

    def prototypes(self, kind, means=None, modes=None):
        means, modes = self.means if means is None else means, self.modes if modes is None else modes
        p, q = self.X.shape[1], self.codes.shape[1]
        mode = np.zeros(q, np.int32)
        return kernel.Prototypes(
            self.grid,
            self.n_levels,
            kernel.KINDS.index(kind),
            self.gamma,
            means,
            modes,
            np.zeros(p),
            mode,
            self.groups,
        )

    def assign(self, prototypes, labels, groups=None, n_threads=1):
        """(moved, costs of the rows, cost)."""
        n = len(labels)
        best, cost = np.empty(n), np.empty((-(-n // kernel.BLOCK), 2))
        scratch = np.empty((n_threads, prototypes.scratch_size()))
        partial = NO_SUMS if groups is None else np.zeros((n_threads, *groups.shape), np.int64)
        groups = NO_GROUPS if groups is None else groups
        args = (
            self.X,
            self.codes,
            self.weight,
            prototypes,
            labels,
            best,
            cost,
            scratch,
            partial,
            groups,
            n_threads,
        )
        return kernel.assign(*args), best, math.fsum(cost.flat)

    def costs(self, kind):
        """(n, K) from the definitions."""
        squares = np.nansum((self.X.astype(np.float64)[:, None] - self.means) ** 2, axis=2)
        present = self.codes < self.n_levels
        equal = self.codes[:, None] == self.modes
        if kind == "matching":
            other = (present[:, None] & ~equal).sum(axis=2)
        elif kind == "ng":
            shares = np.zeros((len(self.means), *self.modes.shape[1:]))
            for k, group in enumerate(self.groups):
                shares[k] = group[1 + self.grid.level_start + self.modes[k]] / max(group[0], 1)
            weighed = np.where(self.groups[:, :1] > 0, 1.0 - shares, 0.0)
            other = np.where(present[:, None], np.where(equal, weighed, 1.0), 0.0).sum(axis=2)
        elif kind == "jaccard":
            other = self.of_sets(
                [
                    set(np.flatnonzero(row & (codes == 1)))
                    for row, codes in zip(present, self.codes, strict=True)
                ],
                [set(np.flatnonzero(mode == 1)) for mode in self.modes],
            )
        else:
            other = self.of_sets(
                [set(codes[row]) for row, codes in zip(present, self.codes, strict=True)],
                list(map(set, self.modes)),
            )
        return squares + self.gamma * other

    def of_sets(self, rows, prototypes):
        return np.array([[1 - len(a & b) / len(a | b) if a | b else 0.0 for b in prototypes] for a in rows])


@pytest.mark.parametrize("kind", kernel.KINDS)
@pytest.mark.parametrize("K", [1, 7, 8, 9, 16, 17, 65])
def test_costs_and_labels(kind, K):
    for seed, shape in enumerate([(3, 4), (0, 5), (4, 0), (9, 1), (1, 20)]):
        for dtype, wide in ((np.float64, False), (np.float32, True)):
            made = Setting(
                seed,
                K,
                p=shape[0],
                q=shape[1],
                dtype=dtype,
                wide=wide,
                weighted=seed % 2 == 1,
                binary=kind == "jaccard",
            )
            expected, labels = made.costs(kind), np.full(300, -1, np.int32)
            moved, best, cost = made.assign(made.prototypes(kind), labels)
            weight = made.weight if len(made.weight) else np.ones(300)
            np.testing.assert_allclose(best, expected.min(axis=1), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(expected[np.arange(300), labels], best, rtol=1e-12, atol=1e-12)
            assert cost == pytest.approx((expected.min(axis=1) * weight).sum(), rel=1e-12)
            assert moved == (weight > 0).sum()


def test_of_equally_near_prototypes_the_first():
    made = Setting(0, 4, p=0, q=3, missing=0.0)
    labels = np.zeros(300, np.int32)
    made.assign(made.prototypes("matching"), labels)
    np.testing.assert_array_equal(labels, made.costs("matching").argmin(axis=1))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_follow_the_labels(weighted, n_threads):
    made = Setting(3, 6, n=5000, weighted=weighted)
    labels, groups = made.labels.copy(), made.groups.copy()
    moved, _, cost = made.assign(made.prototypes("matching"), labels, groups, n_threads)
    np.testing.assert_array_equal(groups, made.sums(labels))
    changed = labels != made.labels
    assert moved == (changed & (made.weight > 0) if weighted else changed).sum()
    assert cost == made.assign(made.prototypes("matching"), made.labels.copy())[2]
    assert made.assign(made.prototypes("matching"), labels, groups, n_threads)[0] == 0


def test_means_and_modes_of_clusters():
    made = Setting(5, 4, missing=0.3, weighted=True)
    prototypes = made.prototypes("matching")
    prototypes.refit(made.groups)
    for k in range(4):
        own = made.labels == k
        for d in range(made.X.shape[1]):
            x, w = made.X[own, d], made.weight[own]
            assert prototypes.means[k, d] == pytest.approx(
                np.nansum(x * w) / w[~np.isnan(x)].sum(), abs=1e-10
            )
        for d in range(made.codes.shape[1]):
            counts = np.bincount(made.codes[own, d], made.weight[own], made.n_levels[d] + 1)[
                : made.n_levels[d]
            ]
            assert prototypes.modes[k, d] == counts.argmax()


def test_whole_numbers_have_correctly_rounded_means():
    made = Setting(7, 1, p=1, q=0, missing=0.0)
    made.X = np.floor(10 * made.X)
    prototypes = made.prototypes("matching")
    prototypes.refit(made.sums(np.zeros(300, np.int32)))
    assert prototypes.means[0, 0] == made.X.sum() / 300


def test_prototypes_without_rows_have_the_values_of_the_table():
    made = Setting(1, 3)
    prototypes = made.prototypes("matching")
    prototypes.refit(np.zeros_like(made.groups))
    assert (prototypes.means == 0).all()
    assert (prototypes.modes == 0).all()


@pytest.mark.parametrize("kind", kernel.KINDS)
def test_rows_in_order(kind):
    """Tables that change with single rows equal the ones computed from means and modes, and moments are
    those of the labels.
    """
    made = Setting(11, 9, weighted=True, binary=kind == "jaccard")
    prototypes, labels, groups = made.prototypes(kind), made.labels.copy(), made.groups.copy()
    scratch, row, total = np.empty((1, prototypes.scratch_size())), 0, 0
    while row < len(labels):
        row, moved, _ = kernel.move_in_order(
            made.X, made.codes, made.weight, prototypes, row, False, labels, scratch, groups
        )
        total += moved
    assert total > 0
    assert (labels[made.weight == 0] == made.labels[made.weight == 0]).all()
    np.testing.assert_array_equal(groups, made.sums(labels))
    made.groups = groups
    again = made.prototypes(kind, prototypes.means, prototypes.modes)
    found, expected = (made.assign(each, np.zeros(300, np.int32)) for each in (prototypes, again))
    np.testing.assert_array_equal(found[1], expected[1])


def test_fixed_prototypes_stay():
    made = Setting(2, 5)
    for kind in ("matching", "ng"):
        prototypes, labels, groups = (
            made.prototypes(kind),
            np.full(300, -1, np.int32),
            np.zeros_like(made.groups),
        )
        scratch = np.empty((1, prototypes.scratch_size()))
        found = kernel.move_in_order(
            made.X, made.codes, NO_WEIGHT, prototypes, 0, True, labels, scratch, groups
        )
        assert found == (300, 300, -1)
        np.testing.assert_array_equal(prototypes.means, made.means)
        np.testing.assert_array_equal(prototypes.modes, made.modes)
        np.testing.assert_array_equal(groups, made.sums(labels))


def test_a_pass_stops_where_a_cluster_loses_its_last_row():
    made = Setting(4, 2, n=20, missing=0.0)
    labels = np.zeros(20, np.int32)
    labels[7] = 1
    groups = made.sums(labels)
    prototypes = made.prototypes("matching", np.array([made.X[7], made.X[7] + 100.0]), made.modes)
    scratch = np.empty((1, prototypes.scratch_size()))
    assert kernel.move_in_order(
        made.X, made.codes, NO_WEIGHT, prototypes, 0, False, labels, scratch, groups
    ) == (8, 1, 1)
    kernel.move_one(made.X, made.codes, NO_WEIGHT, prototypes, 3, 1, labels, groups)
    assert labels[3] == 1
    np.testing.assert_array_equal(groups, made.sums(labels))
    np.testing.assert_allclose(prototypes.means[1], made.X[3], atol=1e-10)
    np.testing.assert_array_equal(prototypes.modes[1], made.codes[3])


def test_what_does_not_fit_is_refused():
    made = Setting(0, 3)
    prototypes, scratch = made.prototypes("matching"), np.empty((1, 10_000))
    cost, groups, partial = np.empty((1, 2)), made.groups, np.zeros((1, *made.groups.shape), np.int64)

    def assign(**changed):
        given = {
            "X": made.X,
            "codes": made.codes,
            "weight": NO_WEIGHT,
            "prototypes": prototypes,
            "labels": made.labels.copy(),
            "best": np.empty(0),
            "cost": cost,
            "scratch": scratch,
            "partial": partial,
            "groups": groups,
            "n_threads": 1,
        }
        return kernel.assign(**given | changed)

    assign()
    for changed in (
        {"X": made.X[:, :2].copy()},
        {"codes": made.codes[:5].copy()},
        {"labels": np.full(300, 3, np.int32)},
        {"best": np.empty(7)},
        {"labels": np.full(300, -2, np.int32)},
        {"cost": np.empty((2, 2))},
        {"cost": np.empty((1, 1))},
        {"scratch": np.empty((1, 8))},
        {"partial": partial[:, :2].copy()},
        {"groups": groups[:, :3].copy()},
        {"n_threads": 0},
        {"n_threads": 2},
    ):
        with pytest.raises(ValueError, match=r"The kernel (got|needs)|n_threads"):
            assign(**changed)
    scratch = np.empty((1, prototypes.scratch_size()))
    for first, labels, sums in (
        (301, made.labels, groups),
        (-1, made.labels, groups),
        (0, np.full(300, 3, np.int32), groups),
        (0, made.labels, groups[:2].copy()),
    ):
        with pytest.raises(ValueError, match="The kernel"):
            kernel.move_in_order(
                made.X, made.codes, NO_WEIGHT, prototypes, first, False, labels.copy(), scratch, sums
            )
    for row, cluster in ((300, 0), (-1, 0), (0, 3), (0, -1)):
        with pytest.raises(ValueError, match="The kernel"):
            kernel.move_one(
                made.X, made.codes, NO_WEIGHT, prototypes, row, cluster, made.labels.copy(), groups
            )
    for modes in (made.modes + 9, made.modes - 9, made.modes[:, :2]):
        with pytest.raises(ValueError, match="The kernel got modes"):
            made.prototypes("matching", modes=modes)
    with pytest.raises(ValueError, match="The kernel got groups"):
        prototypes.refit(groups[:2].copy())


@pytest.mark.parametrize("q", [1, 3, 127, 128, 129, 300])  # columns are counted 128 at a time
@pytest.mark.parametrize("wide", [False, True])
def test_mismatches_are_those_of_present_cells(wide, q):
    made = Setting(q, 3, q=q, wide=wide, missing=0.3)
    present = made.codes < made.n_levels
    for mode in made.modes:
        limits = np.stack([mode, made.n_levels]).astype(made.codes.dtype)
        found = np.empty(len(present), np.int32)
        kernel.mismatches(made.codes, limits, found)
        np.testing.assert_array_equal(found, ((made.codes != mode) & present).sum(axis=1))
