"""Columns as levels, and exponential tilts of the table's own distribution of them: the reference
implementation.

Every column of a table becomes T levels, 0..T-1; a missing cell has code T. b(l) is the share of level l
among the present cells of the table. The distribution of a column of numbers, of ordered categories or
of a period in a group of cells is a tilt of b,

    p(l) = b(l) exp(theta . s(l) - A(theta)),   A(theta) = log sum_l b(l) exp(theta . s(l)),

with statistics s that span (z, z^2) of the standardised score z, or (cos, sin) of the phase, made
orthonormal under b: E_b s = 0, Cov_b s = I. A group of weight n with the sum S of its statistics has
the moments m = S / (n + 1), in which the table stands for one row, and theta maximises
theta . m - A(theta). Its gain over the table, the divergence of the one row inside, is

    g = (n + 1) (theta . m - A(theta)) = theta . S - n A(theta) - KL(b || p).

m lies inside the convex hull of the statistics of the levels that occur, so that theta is finite.

A number may have an atom, a level far more frequent than its neighbours. Its score is nan: z and z^2 are
those of the other levels, 0 at the atom, and a third statistic is 1 at the atom and 0 elsewhere.
"""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from scipy.stats import norm

FEWEST_BESIDE = 6  # values of the levels on both sides of a gap that divides one
MAX_LEVELS = 254
N_BINS = 64  # a column of more distinct values is cut into bins of about this share of its cells
FEWEST_APART = 6  # levels on either side of a gap between groups
LARGEST_SCORE = 8.0
ATOM_SHARE, ATOM_EXCESS = 0.1, 4.0  # of all cells at least, and of those of either neighbour
FLAT = 1e-12  # a statistic of less variance, after its projection on those before it, says nothing


# ----------------------------------------------------------------------------------------
# Levels
# ----------------------------------------------------------------------------------------


def of_numbers(values, weight=None, *, n_bins=N_BINS, period=None):
    """Levels of a column of numbers; nan is missing, a row of weight 0 is not there.

    At most ``n_bins`` distinct values are the levels. Of more, every value with at least 1/n_bins of
    the present cells is a level, and each run of other values between those, of m of the n cells, is
    cut into max(1, round(n_bins m / n)) bins, half to even: a value goes to bin floor(c / m * bins), c
    being the cells of smaller values of the run plus half its own. Both are computed with exact
    fractions. Bins without values vanish. A bin between two others of 8 values or more is divided at its
    widest gap, if that is wider than the distance from its lower end to the least value of the bin below, and
    than that from its upper end to the largest value of the bin above. With more than 254 levels, n_bins is
    lowered.

    Returns
    -------
    namespace
        ``low``, ``high``: smallest and largest value of each level; ``value``: mean of its cells (of their
        directions, if there is a period); ``weight``: its cells; ``single``: whether it is one value.
    """
    values = np.asarray(values, float)
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, float)
    values = reduced(values, period)
    there = ~np.isnan(values) & (weight > 0.0)
    distinct, place = np.unique(values[there], return_inverse=True)
    mass = np.bincount(place, weights=weight[there], minlength=len(distinct))
    bins = n_bins
    level = divided(distinct, level_of_values(mass, bins), bins)
    while level.max(initial=0) >= MAX_LEVELS:
        bins -= 1
        level = divided(distinct, level_of_values(mass, bins), bins)
    first = np.flatnonzero(np.diff(level, prepend=-1))
    last = np.append(first[1:], len(distinct))[: len(first)] - 1
    total = np.bincount(level, weights=mass)
    if period is None:
        unit = np.abs(distinct).max(initial=0.0) or 1.0
        with np.errstate(over="ignore"):  # NumPy 1.26 sees an overflow in quotients of subnormal numbers
            mean = np.bincount(level, weights=mass * (distinct / unit)) / total * unit
        mean = np.where(first == last, distinct[first], mean)
    else:
        angle = 2.0 * np.pi * distinct / period
        mean = np.bincount(level, weights=mass * np.sin(angle)), np.bincount(level, mass * np.cos(angle))
        mean = np.arctan2(*mean) % (2 * np.pi) / (2 * np.pi) * period
        mean = np.where(first == last, distinct[first], mean)
    return SimpleNamespace(
        low=distinct[first],
        high=distinct[last],
        value=mean,
        weight=total,
        single=first == last,
        period=period,
    )


def reduced(values, period):
    """Values within [0, period); as they are without a period."""
    if period is None:
        return values
    values = np.mod(values, period)
    # the remainder of a small negative value rounds to the period itself
    return np.where(values == period, 0.0, values)


def divided(distinct, level, n_bins):
    """The same levels, those with a wide gap as two."""
    if len(distinct) <= n_bins:
        return level
    members = [distinct[level == t] for t in range(level.max() + 1)]
    starts = []
    for below, own, above in zip(members, members[1:], members[2:], strict=False):
        if len(own) < 2 or min(len(below), len(above)) < FEWEST_BESIDE:
            continue
        i = int(np.argmax(np.diff(own / 2)))
        if own[i + 1] / 2 - own[i] / 2 > max(own[i] / 2 - below[0] / 2, above[-1] / 2 - own[i + 1] / 2):
            starts.append(own[i + 1])
    return level + np.searchsorted(starts, distinct, side="right")


def level_of_values(mass, n_bins):
    """Level of every distinct value, in ascending order, with these cells."""
    if len(mass) <= n_bins:
        return np.arange(len(mass))
    whole = (np.floor(mass) == mass).all()  # integers are as exact as fractions, and faster
    mass = [int(m) if whole else Fraction(float(m)) for m in mass]
    n, level, run = sum(mass), [], []

    def cut():
        """The bins of the run, after the levels so far."""
        m, below = sum(run), 0
        bins, start, before = max(1, round(Fraction(n_bins * m) / n)), level[-1] if level else -1, None
        for own in run:
            this = (2 * below + own) * bins // (2 * m)
            start += this != before
            level.append(start)
            below, before = below + own, this
        run.clear()

    for own in mass:
        if own * n_bins >= n:
            cut()
            level.append(level[-1] + 1 if level else 0)
        else:
            run.append(own)
    cut()
    return np.array(level)


def codes_of_numbers(levels, values):
    """Codes of values: the nearest level, by its ends; of two as near the lower one; T if nan. A period has
    no ends: the last level also lies before the first.
    """
    values = reduced(np.asarray(values, float), levels.period)
    T = len(levels.low)
    if not T:
        return np.zeros(len(values), int)
    low, high = levels.low, levels.high
    if levels.period is not None:
        low = np.concatenate([low[-1:] - levels.period, low, low[:1] + levels.period])
        high = np.concatenate([high[-1:] - levels.period, high, high[:1] + levels.period])
    below = np.clip(np.searchsorted(low, values, side="right") - 1, 0, len(low) - 1)
    above = np.minimum(below + 1, len(low) - 1)
    nearer = (values > high[below]) & (low[above] - values < values - high[below])
    codes = np.where(nearer, above, below)
    return np.where(np.isnan(values), T, codes if levels.period is None else (codes - 1) % T)


def shares(codes, n_levels, weight=None):
    """b (T,): the shares of the levels among the present cells."""
    weight = np.ones(len(codes)) if weight is None else np.asarray(weight, float)
    counts = np.bincount(codes, weights=weight, minlength=n_levels + 1)[:n_levels]
    return counts / counts.sum() if counts.sum() > 0.0 else counts


# ----------------------------------------------------------------------------------------
# Scores and statistics
# ----------------------------------------------------------------------------------------


def standardised(values, b):
    """Values of mean 0 and variance 1 under b; those of levels that do not occur count for nothing."""
    values = np.asarray(values, float) / (np.abs(values).max(initial=0.0) or 1.0)
    values = values - b @ values
    deviation = np.sqrt(b @ values**2)
    return values / deviation if deviation > 0.0 else np.zeros_like(values)


def clipped(values, b):
    """Standardised values; one beyond 8 deviations counts as 8."""
    return np.clip(standardised(values, b), -LARGEST_SCORE, LARGEST_SCORE)


def scores_of_numbers(values, b):
    """z (T,) of the levels of a number with these representatives: of their normal scores, if the values
    are skewed (`is_skewed`); of the values otherwise.
    """
    atom = atom_of(b)
    if atom is not None:
        others = np.arange(len(b)) != atom
        z = np.full(len(b), np.nan)
        z[others] = scores_without_atom(np.asarray(values)[others], b[others] / b[others].sum())
        return z
    return scores_without_atom(values, b)


def scores_without_atom(values, b):
    return clipped(normal_means(b) if is_skewed(values, b) else values, b)


def is_skewed(values, b):
    """Whether the values have tails, and so have the groups that hold more than half of the cells. Groups lie
    apart: with six levels or more on either side, a gap between two of them is more than three times as wide
    as the widest among these six levels, the next gap on either side not counted.
    """
    values = np.asarray(values, float)
    gaps, group = np.diff(values), np.zeros(len(values), int)
    for low, gap in enumerate(gaps):
        below, above = (
            gaps[max(low - FEWEST_APART, 0) : max(low - 1, 0)],
            gaps[low + 2 : low + 1 + FEWEST_APART],
        )
        if len(below) == len(above) == FEWEST_APART - 1:
            group[low + 1 :] += gap > 3.0 * max(below.max(), above.max())
    held = sum(
        b[group == k].sum() for k in set(group.tolist()) if has_tails(values[group == k], b[group == k])
    )
    return has_tails(values, b) and held > 0.5


def has_tails(values, b):
    z = standardised(values, b / b.sum())
    return b @ np.abs(z) > 0.0 and (abs(b @ z**3) > b.sum() or b @ z**4 > 5.0 * b.sum())


def atom_of(b):
    """The atom of a number with these shares of at least four levels; of several the most frequent one,
    of equals the lowest; None: it has none.
    """
    found = None
    for level, share in enumerate(b if len(b) > 3 else []):
        nearby = max(b[other] for other in (level - 1, level + 1) if 0 <= other < len(b))
        if share >= ATOM_SHARE and share >= ATOM_EXCESS * nearby and (found is None or share > b[found]):
            found = level
    return found


def normal_means(b):
    """Mean of a standard normal variable in each of the intervals that have these shares of it, in order."""
    below = np.minimum(np.cumsum(b)[:-1], 1.0)
    above = np.minimum(np.cumsum(b[::-1])[::-1][1:], 1.0)
    ends = np.where(below < above, norm.ppf(below), norm.isf(above))
    density = norm.pdf(np.concatenate([[-np.inf], ends, [np.inf]]))
    return (density[:-1] - density[1:]) / np.where(b > 0.0, b, 1.0)


def scores_of_order(b):
    """z (T,) of levels in the order of their scale."""
    return clipped(np.arange(len(b)), b)


def scores_of_period(values, period):
    """(cos, sin) (T, 2) of the phases of the levels."""
    angle = 2.0 * np.pi * np.asarray(values, float) / period
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def statistics(scores, b):
    """s (T, 2): what the scores span, orthonormal under b; (T, 1) if the second says nothing new.

    The scores are z (T,), taken as z and z^2, or (cos, sin) (T, 2). The signs are those of z
    and z^2, of cos and sin. With an atom, they are three: s (T, 3).
    """
    raw = raw_statistics(scores)
    out = []
    for x in raw.T:
        scale = np.sqrt(b @ (x - b @ x) ** 2)
        for _ in range(2):  # twice: rounding errors of the first time are projected away
            x = x - b @ x
            for s in out:
                x = x - (b @ (s * x)) * s
        variance = b @ x**2
        if variance > FLAT * scale**2:
            out.append(x / np.sqrt(variance))
    return np.stack(out, axis=1) if out else np.empty((len(b), 0))


def raw_statistics(scores):
    """(T, 1 to 3) what the scores span."""
    scores = np.asarray(scores, float)
    if scores.ndim > 1:
        return scores
    atom, z = np.isnan(scores), np.nan_to_num(scores)
    return np.stack([z, z**2, *([1.0 * atom] if atom.any() else [])], axis=1)


# ----------------------------------------------------------------------------------------
# Tilts
# ----------------------------------------------------------------------------------------


def log_partition(b, s, theta):
    """A (K,) of parameters (K, p), and the distributions (K, T)."""
    occurs = b > 0.0
    exponent = theta @ s[occurs].T + np.log(b[occurs])
    top = exponent.max(axis=1, keepdims=True)
    total = np.exp(exponent - top).sum(axis=1, keepdims=True)
    p = np.zeros((len(theta), len(b)))
    p[:, occurs] = np.exp(exponent - top) / total
    return (top + np.log(total))[:, 0], p


def tilts(b, s, moments):
    """theta (K, p) whose tilts of b have these moments (K, p): damped Newton steps from 0."""
    moments = np.asarray(moments, float)
    theta = np.zeros_like(moments)
    if not theta.size:
        return theta
    A, p = log_partition(b, s, theta)
    value = (theta * moments).sum(axis=1) - A
    for _ in range(200):
        mean = p @ s
        gradient = moments - mean
        around = s - mean[:, None, :]
        covariance = np.einsum("kt,kti,ktj->kij", p, around, around)
        step = np.einsum("kij,kj->ki", np.linalg.pinv(covariance, rcond=1e-14, hermitian=True), gradient)
        promised = (step * gradient).sum(axis=1)
        # no exponent rises by more than 2 over the mean: far beyond the optimum all but one level underflow
        rise = np.einsum("kti,ki->kt", around[:, b > 0.0], step).max(axis=1)
        length = np.where(promised > 1e-20, np.minimum(1.0, 2.0 / np.maximum(rise, 1e-300)), 0.0)
        for _ in range(60):
            after = theta + length[:, None] * step
            A, p = log_partition(b, s, after)
            reached = (after * moments).sum(axis=1) - A
            # nearer than 1e-10 to the optimum, differences of the value are rounding errors
            far = (reached < value + 0.25 * length * promised) & (promised > 1e-10)
            if not far.any():
                break
            length = np.where(far, length / 2.0, length)
        theta, value = after, reached
        if promised.max() < 1e-20:
            break
    return theta


def log_ratios(s, theta, A):
    """log p(l) / b(l) of tilts (K, p), (K, T); also of levels that do not occur."""
    return theta @ s.T - A[:, None]


def fit(b, s, counts):
    """theta (K, p) and A (K,) of groups of cells with these counts (K, T) of the levels."""
    theta = tilts(b, s, (counts @ s) / (counts.sum(axis=1, keepdims=True) + 1.0))
    return theta, log_partition(b, s, theta)[0]


def gain(b, s, counts):
    """g (K,) of groups with these counts (K, T), each under its own tilt."""
    theta, A = fit(b, s, counts)
    return (theta * (counts @ s)).sum(axis=1) - (counts.sum(axis=1) + 1.0) * A


def log_likelihood(s, counts, theta, A):
    """Log likelihood (K,) of groups with these counts (K, T) under one tilt, over that of the table."""
    return (counts @ s) @ theta - counts.sum(axis=1) * A


# ----------------------------------------------------------------------------------------
# A column of a table
# ----------------------------------------------------------------------------------------


def column(values, kind, *, weight=None, n_levels=None, period=None, n_bins=N_BINS):
    """(codes, T, scores) of a column as ``tests.reference.tilted`` takes it.

    ``kind`` is "number", "category", "ordered" or "periodic". Numbers and phases come as floats, nan for a
    missing cell; the others as codes, ``n_levels`` for a missing one. The scores of a category are None.
    """
    if kind in ("category", "ordered"):
        codes = np.asarray(values, int)
        order = scores_of_order(shares(codes, n_levels, weight)) if kind == "ordered" else None
        return codes, n_levels, order
    period = period if kind == "periodic" else None
    levels = of_numbers(values, weight, n_bins=n_bins, period=period)
    codes, b = codes_of_numbers(levels, values), levels.weight / max(levels.weight.sum(), 1e-300)
    if period is not None:
        return codes, len(b), scores_of_period(levels.value, period)
    return codes, len(b), scores_of_numbers(levels.value, b)


def table(columns, kinds, *, weight=None, n_levels=None, period=None, n_bins=N_BINS):
    """(codes (n, q), list of T, list of scores) of columns of these kinds; see `column`.

    ``n_levels`` and ``period`` are mappings from the number of a column.
    """
    made = [
        column(
            values,
            kind,
            weight=weight,
            n_levels=(n_levels or {}).get(d),
            period=(period or {}).get(d),
            n_bins=n_bins,
        )
        for d, (values, kind) in enumerate(zip(columns, kinds, strict=True))
    ]
    codes, n_levels, scores = zip(*made, strict=True)
    return np.stack(codes, axis=1), list(n_levels), list(scores)
