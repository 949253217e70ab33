"""CRAFT with the pooled background: the reference implementation of the objective, its masks and its passes.

Let R_d be the clusters that do not select column d. Their cells of d share one distribution,
which is fitted to those cells, the pool of the column, like the distribution of a cluster: with a
prior of one row of the whole table. With the notation of `tests.reference.automatic` and g_d of a
group of rows for its gain over the distribution of the whole table

    J = J_0 + sum_k [ h + log(D+1) + log C(D, q_k) - S_k log(S_k / N) + sum_{d in v_k} (p_d h - g_d(k)) ]
            - sum_d [ g_d(pool of R_d), or p_d h if R_d is empty ]

With equal labels and masks J is at most that of the background of the whole table, because gains
are not negative, and a background that no cell uses need not be paid for.

One column with the other masks held: cluster k is in the pool, or it pays a_k = p_d h + lam_k for
parameters of its own, lam_k = log C(D, q_k + 1) - log C(D, q_k) with q_k counted without d. The
gain of a pool is the largest value of sum_k L_k(theta) - pen(theta) over the parameters theta, so

    min over theta of sum_k min(g_d(k) - L_k(theta), a_k) + pen(theta)

is the problem: clusters whose cells cost less than a_k more under theta than under their own
parameters form the pool, theta fits the pool, and so on (Lloyd steps). None of them raises J.

**Ties.** Masks of equal J differ in which clusters count as the rest. The larger one does: of two
choices within the quantum the one with the larger sum of S_k over the unselected cells (k, d) is
preferred, then the one found first.

Everything here works on a problem ``t``, with masks (K, D) of its columns in their order: of
`tests.reference.automatic` (normal densities and shares) or of `tests.reference.tilted` (tilts and
shares). The distribution of a column is that of its form, ``t.forms[d]``, see `tests.reference.forms`.
"""

from __future__ import annotations

from itertools import combinations, product
from math import log
from types import SimpleNamespace

import numpy as np

from tests.reference import automatic, craft
from tests.reference.automatic import QUANTUM

SINGLES, WARM_SINGLES = 24, 4  # the largest clusters that start the pool of a column; of continued masks
MANY_CHOICES = 2000  # clusters times columns above which one starts there
MAX_TOGGLES = 12  # clusters up to which single changes follow
MAX_PAIRS = 3  # clusters up to which all columns are tried for one and no columns for another
MAX_WHOLE_ROWS = 20  # clusters up to which all and no columns are tried for each of them


# ----------------------------------------------------------------------------------------
# One column: parameters, costs and gains of groups of rows
# ----------------------------------------------------------------------------------------


def column_sums(t, stats, d):
    """Sums (K, M) of the cells of a column in groups of rows, as its form knows them."""
    return t.forms[d].sums(stats)


def fit(t, d, sums):
    """The distribution of a group with these sums; that of the whole table without cells."""
    return t.forms[d].fit(sums)


def log_likelihood(t, d, sums, theta):
    """L (K,): log-likelihood of groups of cells under theta, relative to that of the whole table."""
    return t.forms[d].log_likelihood(sums, theta)


def penalty(t, d, theta):
    """What the prior of one row charges for theta."""
    return t.forms[d].penalty(theta)


def gain(t, d, sums):
    """g_d of one group of rows."""
    return t.forms[d].gains(sums[None])[0]


def gains(t, stats):
    """g_d (K, D) of groups of rows."""
    return np.array([form.gains(form.sums(stats)) for form in t.forms]).reshape(t.D, len(stats)).T


def cell_costs(t, d, rows, theta):
    """Cost (n,) of the cells of column d under theta, relative to the whole table's; 0 where the cell is
    missing.
    """
    return t.forms[d].cell_costs(rows, theta)


# ----------------------------------------------------------------------------------------
# The objective
# ----------------------------------------------------------------------------------------


def naming(t):
    """Code of a mask of q columns, for q = 0 .. D."""
    return log(t.D + 1) + automatic.log_choose(t.D)


def objective(t, stats, mask):
    """J of clusters known by their sums, with these masks (K, D)."""
    mask = np.asarray(mask, bool)
    S, h = stats[:, 0], automatic.unit_price(t.N, t.price_factor)
    J = t.l0 + len(S) * h - S @ np.log(S / t.N) + naming(t)[mask.sum(axis=1)].sum()
    for d in range(t.D):
        sums, rest = column_sums(t, stats, d), ~mask[:, d]
        J += sum(t.parameters[d] * h - gain(t, d, own) for own in sums[~rest])
        J -= gain(t, d, sums[rest].sum(axis=0)) if rest.any() else t.parameters[d] * h
    return float(J)


def objective_of_rows(numeric, codes, n_levels, labels, mask, *, weight=None, price_factor=1.0):
    """The same J from the table: every cell under the distribution of its group, the priors, the prices.

    ``labels`` are those of all rows, 0..K-1, each on some row of positive weight; ``mask`` (K, D)
    is that of the columns that are not constant. Nothing is measured against the whole table.
    """
    rows, weight, back, labels = craft.prepare(numeric, codes, n_levels, labels, weight)
    columns = [d for d in range(back.D) if back.varies[d]]

    def cost(place, members):
        d = columns[place]
        cells = [(weight[n], rows[n][d]) for n in members if not craft.is_missing(back, d, rows[n][d])]
        return group_cost(cells, back, d)

    parameters = [
        2
        if d < back.p
        else automatic.priced_shares(sum(c > 0.0 for c in back.counts[d - back.p]), sum(weight))
        for d in columns
    ]
    return objective_of_groups(labels, weight, mask, parameters, cost, price_factor)


def objective_of_groups(labels, weight, mask, parameters, cost, price_factor):
    """J from ``cost(d, rows)``: what the cells of column d in these rows, of positive weight, cost with their
    own distribution and its prior.
    """
    N, (K, D) = sum(weight), np.shape(mask)
    h, J = price_factor * 0.5 * log(N), 0.0
    members = [[n for n, w in enumerate(weight) if w > 0.0 and labels[n] == k] for k in range(K)]
    for k in range(K):
        S = sum(weight[n] for n in members[k])
        J += h + log(D + 1) + automatic.log_choose(D)[int(sum(mask[k]))] - S * log(S / N)
    for d in range(D):
        rest = [n for k in range(K) if not mask[k][d] for n in members[k]]
        groups = [members[k] for k in range(K) if mask[k][d]] + ([rest] if rest else [])
        # the parameters of the pool are part of J_0; if there is none, one of the clusters takes its place
        J += parameters[d] * h * (len(groups) - 1) + sum(cost(d, group) for group in groups)
    return J


def group_cost(cells, back, d):
    """Cost of weighted cells (w, x) under the parameters fitted to them, and of the prior of one row."""
    if not cells:
        return 0.0
    S = sum(w for w, _ in cells)
    if d < back.p:
        variance_0 = back.variance[d]
        mean = sum(w * x for w, x in cells) / S
        variance = (sum(w * (x - mean) ** 2 for w, x in cells) + variance_0) / (S + 1.0)
        cost = sum(w * (0.5 * log(variance) + (x - mean) ** 2 / (2.0 * variance)) for w, x in cells)
        return cost + 0.5 * (variance_0 / variance - 1.0 - log(variance_0 / variance))
    eta_0, counts = back.eta[d - back.p], [0.0] * back.n_levels[d - back.p]
    for w, x in cells:
        counts[x] += w
    eta = craft.smoothed(counts, eta_0, 1.0)
    return -sum(w * log(eta[x]) for w, x in cells) + craft.divergence(eta_0, eta)


# ----------------------------------------------------------------------------------------
# Masks: the exact optimum
# ----------------------------------------------------------------------------------------


def columns_of(t, stats):
    """Sums, gains and price of every column, as the rules below read them."""
    h = automatic.unit_price(t.N, t.price_factor)
    columns = []
    for d in range(t.D):
        sums = column_sums(t, stats, d)
        own = t.forms[d].gains(sums)
        columns.append(SimpleNamespace(d=d, sums=sums, gain=own, price=t.parameters[d] * h))
    return columns


def column_value(t, column, selected, price):
    """What one column adds to J if clusters with ``selected`` (K,) pay ``price`` (K,) for parameters of their
    own.
    """
    rest = ~selected
    pool = gain(t, column.d, column.sums[rest].sum(axis=0)) if rest.any() else column.price
    return (price - column.gain)[selected].sum() - pool


def best_masks_exhaustive(t, stats):
    """(J, mask) of the optimum over all masks, by dynamic programming over (q_1, .., q_K).

    The least sum over the first columns is kept for every vector of counts; there are (D+1)^K of
    them, and each column has 2^K choices: small K and D only.
    """
    K, S = len(stats), stats[:, 0]
    value = np.full((t.D + 1,) * K, np.inf)
    value[(0,) * K] = 0.0
    choices = [np.array(choice, bool) for choice in product((False, True), repeat=K)]
    chosen = []
    for column in columns_of(t, stats):
        best, choice_of = np.full_like(value, np.inf), np.zeros(value.shape, int)
        for i, choice in enumerate(choices):
            after = tuple(slice(1, None) if s else slice(None) for s in choice)
            before = tuple(slice(None, -1) if s else slice(None) for s in choice)
            candidate = value[before] + column_value(t, column, choice, np.full(K, column.price))
            lower = candidate < best[after]
            best[after] = np.where(lower, candidate, best[after])
            choice_of[after] = np.where(lower, i, choice_of[after])
        value = best
        chosen.append(choice_of)
    code = naming(t)
    for k in range(K):
        value = value + code.reshape([-1 if axis == k else 1 for axis in range(K)])
    counts = np.argwhere(value <= value.min() + unit_of(value.min()))
    q = counts[np.argmin(counts @ S)]  # the heaviest rest
    mask = np.zeros((K, t.D), bool)
    for d in reversed(range(t.D)):
        mask[:, d] = choices[chosen[d][tuple(q)]]
        q = q - mask[:, d]
    return objective(t, stats, mask), mask


# ----------------------------------------------------------------------------------------
# Masks: the rule
# ----------------------------------------------------------------------------------------


def unit_of(value):
    """Values closer than this to ``value`` are ties."""
    return QUANTUM * max(1.0, abs(value))


def is_better(value, weight, than_value, than_weight):
    """Whether a choice is shorter than another, or as short with a heavier rest."""
    unit = unit_of(than_value)
    return value < than_value - unit or (value <= than_value + unit and weight > than_weight)


def lloyd(t, column, price, theta):
    """Clusters (K,) that select the column after Lloyd steps from theta, the parameters of a pool."""
    selected = None
    while True:
        extra = column.gain - log_likelihood(t, column.d, column.sums, theta) - price
        now = extra > unit_of(np.abs(column.gain).max())  # a tie stays in the pool
        if now.all() or (selected is not None and np.array_equal(now, selected)):
            return now
        selected = now
        theta = fit(t, column.d, column.sums[~selected].sum(axis=0))


def best_of_column(t, column, S, price, current, n_singles):
    """Clusters (K,) that should select the column: the best of the current ones, of Lloyd steps from the
    current pool, the whole table and the largest single clusters, and of single changes after them."""
    largest = np.argsort(-S, kind="stable")[:n_singles]
    pools = [~current, np.ones(len(S), bool)] + [np.arange(len(S)) == k for k in largest]
    found = [
        lloyd(t, column, price, fit(t, column.d, column.sums[pool].sum(axis=0)))
        for pool in pools
        if pool.any()
    ]

    best, value, weight = current, column_value(t, column, current, price), S[~current].sum()

    def improve(candidates):
        nonlocal best, value, weight
        before = best
        for candidate in candidates:
            its, heavy = column_value(t, column, candidate, price), S[~candidate].sum()
            if is_better(its, heavy, value, weight):
                best, value, weight = candidate, its, heavy
        return best is not before

    improve(found)
    if len(S) <= MAX_TOGGLES:
        while improve([best ^ (np.arange(len(S)) == k) for k in range(len(S))]):
            pass
    return best


def warm_singles(t, stats):
    """Clusters that start the pool of a column where masks are continued."""
    return WARM_SINGLES if len(stats) * t.D <= MANY_CHOICES else 1


def sweep(t, stats, columns, mask, *, slope=None, n_singles=SINGLES):
    """Masks (K, D) after visits of the columns, in their order, until no visit changes any.

    Parameters
    ----------
    mask : array (K, D) of bool
        Where the sweep starts. J is never higher at its end, unless a slope is given.
    slope : float, optional
        A constant in place of lam_k, the change of the code of a mask by one column.
    n_singles : int
        Single clusters that start a pool.
    """
    mask, S, steps = np.array(mask, bool), stats[:, 0], np.diff(naming(t))
    changed = True
    while changed:
        changed = False
        for column in columns:
            d = column.d
            lam = steps[mask.sum(axis=1) - mask[:, d]] if slope is None else slope
            best = best_of_column(
                t, column, S, np.full(len(S), column.price) + lam, mask[:, d].copy(), n_singles
            )
            changed |= not np.array_equal(best, mask[:, d])
            mask[:, d] = best
    return mask


def rest_weight(stats, mask):
    """Sum of S_k over the unselected cells (k, d)."""
    return float(stats[:, 0] @ (~mask).sum(axis=1))


def best_masks(t, stats, start=None):
    """(J, mask) by the full rule.

    Sweeps from the masks of the background of the whole table, from the masks under constant
    slopes 0, log(D)/2 and log D, and from ``start`` if there is one; the best of them; then, for at
    most 20 clusters, sweeps after one cluster selects all columns, or none; for at most three, also after one
    selects all and another one none. These last sweeps start the pools of fewer single clusters.
    """
    columns, K = columns_of(t, stats), len(stats)
    table = automatic.priced_mask(gains(t, stats), t.parameters, t.N, t.price_factor)
    slopes = (0.0, log(t.D) / 2.0, log(t.D)) if t.D else ()
    starts = [] if start is None else [np.asarray(start, bool)]
    starts += [table] + [sweep(t, stats, columns, table, slope=slope) for slope in slopes]
    best, J = starts[0], objective(t, stats, starts[0])

    def improve(mask, n_singles=SINGLES):
        nonlocal best, J
        mask = sweep(t, stats, columns, mask, n_singles=n_singles)
        its = objective(t, stats, mask)
        if is_better(its, rest_weight(stats, mask), J, rest_weight(stats, best)):
            best, J = mask, its

    for mask in starts:
        improve(mask)
    if K <= MAX_WHOLE_ROWS:
        for full, empty in product(range(K + 1), repeat=2):
            if full != empty and (K in (full, empty) or K <= MAX_PAIRS):
                mask = np.vstack([best, best[:1]])
                mask[full], mask[empty] = True, False
                improve(mask[:K], warm_singles(t, stats))
    return J, best


# ----------------------------------------------------------------------------------------
# Passes
# ----------------------------------------------------------------------------------------


def row_costs(t, rows, stats, mask):
    """Cost (n, K) of rows under every cluster: sum over v_k of (own - background_d) - log(S_k / N).

    The background of a column is the distribution of its pool; if every cluster selects the
    column, that of the whole table, because it then is the same for all clusters.
    """
    cost = np.tile(-np.log(stats[:, 0] / t.N), (len(rows), 1))
    for d in range(t.D):
        sums, selected = column_sums(t, stats, d), mask[:, d]
        background = cell_costs(t, d, rows, fit(t, d, sums[~selected].sum(axis=0)))
        for k in np.flatnonzero(selected):
            cost[:, k] += cell_costs(t, d, rows, fit(t, d, sums[k])) - background
    return cost


def one_pass(t, labels, mask):
    """(labels, mask, J) after every row moves to its cheapest cluster, empty clusters go, and the masks are
    swept once.

    A row stays unless another cluster is better by more than 1e-12; of equal ones the first is taken.
    """
    stats = automatic.sums(t, t.rows, labels, len(mask))
    cost = row_costs(t, t.rows, stats, mask)
    stay = cost[np.arange(len(cost)), labels]
    labels = np.where(stay - cost.min(axis=1) > craft.STAY_SLACK, cost.argmin(axis=1), labels)
    kept, labels = np.unique(labels, return_inverse=True)
    stats = automatic.sums(t, t.rows, labels, len(kept))
    mask = sweep(t, stats, columns_of(t, stats), mask[kept], n_singles=warm_singles(t, stats))
    return labels, mask, objective(t, stats, mask)


# ----------------------------------------------------------------------------------------
# Moves
# ----------------------------------------------------------------------------------------


def merge_deltas(t, stats, J, *, masks=best_masks):
    """Change (K, K) of J, from ``J``, by the union of two clusters, with the best masks after it by the rule
    ``masks``; infinite on and below the diagonal.
    """
    K = len(stats)
    delta = np.full((K, K), np.inf)
    for i, j in combinations(range(K), 2):
        merged = np.delete(stats, j, axis=0)
        merged[i] += stats[j]
        delta[i, j] = masks(t, merged)[0] - J
    return delta


def split_candidates(t, labels, k):
    """Candidates for a split of cluster k: pairs of a column and the rows (n,) of the table that leave."""
    labels = np.asarray(labels)
    here = labels == k
    rows = t.rows[here]
    sums = automatic.sums(t, rows, np.zeros(len(rows)), 1)
    candidates = []
    for d, form in enumerate(t.forms):
        for leaves in form.splits(form.sums(sums)[0], rows):
            moved = np.zeros(len(labels), bool)
            moved[here] = leaves
            candidates.append((d, moved))
    return candidates


def split_delta(t, labels, moved, J, *, masks=best_masks):
    """Change of J, from ``J``, if these rows become a cluster, with the best masks after it."""
    labels = np.where(moved, np.max(labels) + 1, labels)
    return masks(t, automatic.sums(t, t.rows, labels, labels.max() + 1))[0] - J
