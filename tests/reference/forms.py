"""Forms of the distribution of a column in a group of rows: normal, shares of levels, tilt.

A form knows the additive sums of its column in a group of rows, fits a distribution to them with a prior of
one row of the table, and measures everything relative to the table's own distribution:

- ``sums(stats)`` (K, M): its part of the sums of groups, see `tests.reference.automatic.sums`;
- ``fit(sums)``: the distribution of one group, that of the table without cells;
- ``log_likelihood(sums, theta)`` (K,): of groups of cells under theta, over the table's;
- ``penalty(theta)``: what the prior charges;
- ``gains(sums)`` (K,): the log-likelihood of each group under its own fit, less the penalty;
- ``cell_costs(rows, theta)`` (n,): minus the log-likelihood of cells; 0 where one is missing;
- ``splits(sums, rows)``: candidates for a split of a group, each the rows (n,) that leave;
- ``parameters``: their number, that is priced.

The distribution of a column of levels is the vector log p(l) / b(l), whatever the family of p.
"""

from __future__ import annotations

from math import log

import numpy as np
from scipy.stats import norm

from tests.reference import levels

ABOVE = 1e-9  # a score this little above the middle of a cluster is not above it
FREQUENT_LEVELS = 3  # that are split from the rest of a cluster
FEW_LEVELS = 16  # up to which gains are not ranked by those of normal densities


class Normal:
    """Numbers z, standardised by the table: a normal density."""

    parameters = 2

    def __init__(self, z, present, places):
        self.z, self.present, self.places = z, present, places

    def sums(self, stats):
        """Cells, sum and sum of squares of z."""
        return stats[:, self.places]

    def fit(self, sums):
        """Mean and variance of z."""
        S, z, zz = sums
        mean = z / S if S > 0.0 else 0.0
        return np.array([mean, (max(zz - z * mean, 0.0) + 1.0) / (S + 1.0)])

    def log_likelihood(self, sums, theta):
        S, z, zz = sums.T
        mean, variance = theta
        return zz / 2.0 - S / 2.0 * log(variance) - (zz - 2.0 * mean * z + S * mean**2) / (2.0 * variance)

    def penalty(self, theta):
        return 0.5 * (1.0 / theta[1] - 1.0 + log(theta[1]))

    def gains(self, sums):
        fits = [self.fit(own) for own in sums]
        gains = [
            self.log_likelihood(own[None], f)[0] - self.penalty(f) for own, f in zip(sums, fits, strict=True)
        ]
        return np.maximum(gains, 0.0)

    def cell_costs(self, rows, theta):
        z, (mean, variance) = self.z[rows], theta
        cost = 0.5 * log(variance) + (z - mean) ** 2 / (2.0 * variance) - z**2 / 2.0
        return np.where(self.present[rows], cost, 0.0)

    def splits(self, sums, rows):
        """The cells above the mean leave."""
        S, z, _ = sums
        return [self.present[rows] & (self.z[rows] * S > z)] if S > 0.0 else []


class Levels:
    """A column of levels, known by ``member`` (n, T), 1 where a row has a level, and the shares b."""

    def __init__(self, member, b, places):
        self.member, self.b, self.places = member, b, places

    def sums(self, stats):
        """Counts of the levels."""
        return stats[:, self.places]

    def ratios(self, counts):
        """log p(l) / b(l) (K, T) of groups with these counts."""
        raise NotImplementedError

    def fit(self, sums):
        return self.ratios(sums[None])[0]

    def log_likelihood(self, sums, theta):
        return sums @ theta

    def penalty(self, theta):
        """KL(b || p)."""
        return -self.b @ theta

    def gains(self, sums):
        ratios = self.ratios(sums)
        return np.maximum((sums * ratios).sum(axis=1) + ratios @ self.b, 0.0)

    def cell_costs(self, rows, theta):
        return -self.member[rows] @ theta

    def leaving(self, counts):
        """Candidates for a split of a group with these counts: the levels (T,) that leave."""
        raise NotImplementedError

    def splits(self, sums, rows):
        return [self.member[rows][:, leaves].any(axis=1) for leaves in self.leaving(sums)]


class Shares(Levels):
    """Levels that occur, each with a share of its own."""

    @property
    def parameters(self):
        return len(self.b) - 1

    def ratios(self, counts):
        return np.log((counts + self.b) / (counts.sum(axis=1, keepdims=True) + 1.0) / self.b)

    def leaving(self, counts):
        """Each of the three most frequent levels; one if two occur in the group; ties: the first level."""
        order = np.argsort(-counts, kind="stable")
        occur = np.count_nonzero(counts)
        n = 0 if occur < 2 else 1 if occur == 2 else FREQUENT_LEVELS
        return [np.arange(len(counts)) == level for level in order[:n]]


class Tilt(Levels):
    """Levels with scores, if at least three occur: an exponential tilt of the shares."""

    def __init__(self, member, b, places, scores):
        super().__init__(member, b, places)
        self.scores, self.s = scores, levels.statistics(scores, b)
        self.known = {}  # ratios by the bytes of the counts: searches ask for the same groups again and again

    @property
    def parameters(self):
        return self.s.shape[1]

    def ratios(self, counts):
        counts = np.ascontiguousarray(counts, float)
        names = [own.tobytes() for own in counts]
        new = [k for k, name in enumerate(names) if name not in self.known]
        if new:
            made = levels.log_ratios(self.s, *levels.fit(self.b, self.s, counts[new]))
            self.known.update(zip([names[k] for k in new], made, strict=True))
        return np.array([self.known[name] for name in names]).reshape(counts.shape)

    @property
    def is_ranked(self):
        """Whether merges and splits are ranked by the gains of normal densities: many levels, without an
        atom, whose second statistic is a square of the first one.
        """
        if self.s.shape[1] != 2 or len(self.b) <= FEW_LEVELS:
            return False
        z, second = self.s[self.b > 0.0].T
        return np.polynomial.Polynomial.fit(z, second, 2, full=True)[1][0].sum() < 1e-8

    def normals(self, sums):
        """Cells and prior row, mean and mean square of z (K,) of groups, shrunk to the table by its row."""
        z, total = self.s[:, 0], sums.sum(axis=1) + 1.0
        return total, sums @ z / total, (sums @ z**2 + 1.0) / total

    def normal_gains(self, sums):
        """Divergences (K,) of the groups' normal densities from that of the table."""
        total, mean, square = self.normals(sums)
        return 0.5 * total * (square - 1.0 - np.log(square - mean**2))

    def normal_likelihood(self, sums, group):
        """Log-likelihoods (K,) of cells under the normal density of a group, over the table's."""
        _, (mean,), (square,) = self.normals(group[None])
        variance, z = square - mean**2, self.s[:, 0]
        return sums @ norm.logpdf(z, mean, np.sqrt(variance)) - sums @ norm.logpdf(z)

    def leaving(self, counts):
        """The scores above the mean of the group and, if there are cells at an atom, those below and the
        atom; of a period the half circle from its mean direction on, and the half circle around its axis.
        """
        n = counts.sum()
        if not n > 0.0:
            return []
        if self.scores.ndim == 1:
            atom, z = np.isnan(self.scores), np.nan_to_num(self.scores)
            others = np.where(atom, 0.0, counts)
            above = z - others @ z / max(others.sum(), 1e-300)
            above = ~atom & (above > ABOVE)
            candidates = [above]
            if counts @ atom > 0.0:
                candidates += [~atom & ~above] if counts @ above > 0.0 else []
                candidates += [atom]
        else:
            phase = np.arctan2(self.scores[:, 1], self.scores[:, 0])
            direction = np.angle(counts @ np.exp(1j * phase))
            axis = np.angle(counts @ np.exp(2j * phase)) / 2.0
            candidates = [np.sin(phase - direction) > ABOVE, np.cos(phase - axis) > ABOVE]
        return [leaves for leaves in candidates if 0.0 < counts @ leaves < n]
