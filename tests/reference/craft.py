"""CRAFT word for word: the reference implementation of the kernels.

Garg, Rudin & Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS 2016.
Nothing here is fast: rows, clusters and columns are Python loops, every formula stands once,
and the pass is the serial loop of Algorithm 2 - row after row, each compared with all clusters,
those opened a moment ago included.

Columns d are counted in kernel order: the p numeric ones first, then the q categorical ones. A
cell is missing if it is NaN or if its code equals the number of levels; a missing cell costs
nothing and counts nowhere. A column with one distinct value among the rows of positive weight
is constant: never selected, gain 0, cost 0, not counted in any number of columns. All
logarithms are natural.

Two families of models share the pass:

``likelihood``
    one penalised likelihood, every step an exact coordinate minimiser, so the objective never
    rises;
``paper``, ``paper-relative``, ``paper-fixed``
    the algorithm as printed, with a pseudo-count of 0.1 and the variance fitted (floored) or
    fixed to 1; ``paper-relative`` ranks numeric columns by sigma_kd / sigma_0 instead of sigma_kd.
"""

from __future__ import annotations

from copy import copy
from math import floor, inf, isnan, log
from types import SimpleNamespace

import numpy as np

from craftc._common.random import uniform

VARIANCE_FLOOR = 1e-3  # of the global variance, model "paper"
OPENING_SLACK = 1e-9
STAY_SLACK = 1e-12
QUANTUM = 1e-9  # scores closer than this (relative) are ties
NOISE = 1e-12  # gains up to this a row are rounding


# ----------------------------------------------------------------------------------------
# Constants of the feature prior
# ----------------------------------------------------------------------------------------


def binary_entropy(nu):
    """h(nu) in nats; h(0) = h(1) = 0."""
    return -sum(x * log(x) for x in (nu, 1.0 - nu) if x > 0.0)


def default_variance(m):
    """rho, just below its upper limit m(1-m): clusters like to share features."""
    return max(m * (1.0 - m) - 0.01, m * (1.0 - m) / 2.0)


def selection_probabilities(m, rho=None):
    """(nu_0, nu_1): chance of a new cluster to select what an old one left out, or selected."""
    if m == 1.0:
        return 1.0, 1.0
    s = m * (1.0 - m) / (default_variance(m) if rho is None else rho)
    return m * (1.0 - 1.0 / s), m + (1.0 - m) / s


def price_terms(m, rho=None):
    """(F_0, F_1, F_Delta): price of an unselected feature, of a selected one, and their difference.

    F_v = s h(nu_v) with s = m(1-m)/rho. F_Delta is 0 exactly at m = 1/2; all three are 0 at m = 1.
    """
    if m == 1.0:
        return 0.0, 0.0, 0.0
    s = m * (1.0 - m) / (default_variance(m) if rho is None else rho)
    nu_0, nu_1 = selection_probabilities(m, rho)
    F0, F1 = s * binary_entropy(nu_0), s * binary_entropy(nu_1)
    return F0, F1, 0.0 if m == 0.5 else F1 - F0


# ----------------------------------------------------------------------------------------
# The table and its background
# ----------------------------------------------------------------------------------------


def as_rows(numeric, codes):
    """The table as a list of rows, each a list of p floats and q ints."""
    numeric = np.asarray(numeric, dtype=np.float64)
    codes = np.asarray(codes, dtype=np.int64)
    return [numeric[n].tolist() + codes[n].tolist() for n in range(len(numeric))]


def is_missing(back, d, x):
    """NaN in a numeric column, the code one past the last level in a categorical one."""
    return isnan(x) if d < back.p else x >= back.n_levels[d - back.p]


def background(rows, p, n_levels, weight):
    """Every column over all rows: frequencies eta_0d, mean zeta_0d, variance (divisor N)."""
    D = p + len(n_levels)
    back = SimpleNamespace(p=p, q=len(n_levels), D=D, n_levels=list(n_levels))
    back.varies = [False] * D
    back.zeta, back.variance, back.eta, back.counts = [0.0] * p, [0.0] * p, [], []
    for d in range(D):
        cells = [
            (w, row[d])
            for w, row in zip(weight, rows, strict=True)
            if w > 0.0 and not is_missing(back, d, row[d])
        ]
        back.varies[d] = len({x for _, x in cells}) > 1
        total = sum(w for w, _ in cells)
        if d < p:
            if cells:
                back.zeta[d] = sum(w * x for w, x in cells) / total
                back.variance[d] = sum(w * (x - back.zeta[d]) ** 2 for w, x in cells) / total
        else:
            counts = [0.0] * n_levels[d - p]
            for w, t in cells:
                counts[t] += w
            back.counts.append(counts)
            back.eta.append([c / total if total > 0.0 else 0.0 for c in counts])
    return back


def background_cost(back, d, x):
    """l0_d(x) of an unselected cell; missing, constant column or level of count 0: nothing."""
    if not back.varies[d] or is_missing(back, d, x):
        return 0.0
    if d < back.p:
        return 0.5 * log(back.variance[d]) + (x - back.zeta[d]) ** 2 / (2.0 * back.variance[d])
    eta_0 = back.eta[d - back.p][x]
    return -log(eta_0) if eta_0 > 0.0 else 0.0


# ----------------------------------------------------------------------------------------
# One cluster: statistics, parameters, gains
# ----------------------------------------------------------------------------------------


def smoothed(counts, eta_0, alpha):
    """eta_t = (c_t + alpha eta_0t) / (S + alpha)."""
    S = sum(counts)
    return [(c + alpha * e) / (S + alpha) for c, e in zip(counts, eta_0, strict=True)]


def divergence(eta, eta_0):
    """KL(eta || eta_0)."""
    return sum(e * log(e / e_0) for e, e_0 in zip(eta, eta_0, strict=True) if e > 0.0)


def entropy(counts):
    """Entropy in nats of raw counts; 0 without any count."""
    S = sum(counts)
    return -sum(c / S * log(c / S) for c in counts if c > 0.0)


def fit_cluster(rows, weight, back, model):
    """Parameters and likelihood gains of the cluster made of ``rows``; the mask is left empty.

    For every column: S the weight of the present cells, ``own`` whether the cluster has
    parameters of its own (S > 0), ``gain`` the fall of the penalised likelihood (pseudo-counts
    alpha = kappa = 1) if it is selected; rounding is none.
    """
    p, D = back.p, back.D
    k = SimpleNamespace(weight=sum(weight), S=[0.0] * D, gain=[0.0] * D, mask=[False] * D)
    k.zeta, k.variance, k.SS = list(back.zeta), list(back.variance), [0.0] * p
    k.eta, k.counts = [list(e) for e in back.eta], [[0.0] * len(e) for e in back.eta]
    for d in range(D):
        cells = [
            (w, row[d])
            for w, row in zip(weight, rows, strict=True)
            if w > 0.0 and not is_missing(back, d, row[d])
        ]
        S = k.S[d] = sum(w for w, _ in cells)
        if S == 0.0:
            continue
        if d < p:
            zeta_0, variance_0 = back.zeta[d], back.variance[d]
            zeta = k.zeta[d] = sum(w * x for w, x in cells) / S
            SS = k.SS[d] = sum(w * (x - zeta) ** 2 for w, x in cells)
            if not back.varies[d]:
                continue
            variance = (SS + variance_0) / (S + 1.0)
            about_background = sum(w * (x - zeta_0) ** 2 for w, x in cells)
            gain = (
                (S + 1.0) * 0.5 * log(variance_0 / variance) - S / 2.0 + about_background / (2.0 * variance_0)
            )
            if model in ("paper", "paper-relative"):
                variance = max(SS / S, VARIANCE_FLOOR * variance_0)
            elif model == "paper-fixed":
                variance = 1.0
            k.variance[d] = variance
        else:
            counts, eta_0 = k.counts[d - p], back.eta[d - p]
            for w, t in cells:
                counts[t] += w
            k.eta[d - p] = smoothed(counts, eta_0, 1.0 if model == "likelihood" else 0.1)
            if not back.varies[d]:
                continue
            gain = (S + 1.0) * divergence(smoothed(counts, eta_0, 1.0), eta_0)
        k.gain[d] = gain if gain > NOISE * (S + 1.0) else 0.0
    k.own = [S > 0.0 for S in k.S]
    return k


def relative_cost(row, k, back, s):
    """d'_nk: what the selected features of cluster k cost this row more than the background.

    In the printed models F_Delta |v_k| is part of it and numeric features have no background cost.
    """
    total = 0.0 if s.model == "likelihood" else s.F_delta * sum(k.mask)
    for d in range(back.D):
        if not (k.mask[d] and k.own[d]) or is_missing(back, d, row[d]):
            continue
        if d < back.p:
            own = (row[d] - k.zeta[d]) ** 2 / (2.0 * k.variance[d])
            if s.model == "likelihood":
                own += 0.5 * log(k.variance[d])
                own -= background_cost(back, d, row[d])
            total += own
        elif back.eta[d - back.p][row[d]] > 0.0:
            total += log(back.eta[d - back.p][row[d]]) - log(k.eta[d - back.p][row[d]])
    return total


# ----------------------------------------------------------------------------------------
# Selection of features
# ----------------------------------------------------------------------------------------


def top(scores, candidates, n):
    """The n candidates of highest score; within a quantum it is a tie, the lower column wins."""
    largest = max((abs(scores[d]) for d in candidates if scores[d] > -inf), default=0.0)
    unit = QUANTUM * max(1.0, largest)
    rank = {d: -inf if scores[d] == -inf else floor(scores[d] / unit + 0.5) for d in candidates}
    return sorted(candidates, key=lambda d: (-rank[d], d))[:n]


def budget(m, c):
    """Features to select out of c of one kind: m c rounded half up, at least 1 if there is one."""
    return min(c, max(1, floor(m * c + 0.5 + 1e-9)))


def top_per_kind(scores, back, m):
    """Mask of the fixed budget: the best of the numeric and the best of the categorical columns."""
    mask = [False] * back.D
    for kind in (range(back.p), range(back.p, back.D)):
        candidates = [d for d in kind if back.varies[d]]
        for d in top(scores, candidates, budget(m, len(candidates))):
            mask[d] = True
    return mask


def printed_entropies(k, back, d):
    """(G_d, G_kd) of the paper: sums over the cluster's cells of -log eta_0d and of -log eta_kd, from raw
    counts.

    The difference is S KL(eta_kd || eta_0d): both sums run over the rows of the cluster.
    """
    G, G_k = 0.0, 0.0
    for c, eta_0 in zip(k.counts[d - back.p], back.eta[d - back.p], strict=True):
        if c > 0.0:
            G -= c * log(eta_0)
            G_k -= c * log(c / k.S[d])
    return G, G_k


def printed_scores(k, back, model="paper"):
    """Scores of the printed models: G_d - G_kd; minus the standard deviation, in "paper-relative" over the
    table's.
    """
    scores = [-inf] * back.D
    for d in range(back.D):
        if k.S[d] > 0.0 and back.varies[d]:
            if d < back.p:
                scores[d] = -(
                    (k.SS[d] / k.S[d] / (back.variance[d] if model == "paper-relative" else 1.0)) ** 0.5
                )
            else:
                G, G_k = printed_entropies(k, back, d)
                scores[d] = G - G_k
    return scores


def within_thresholds(k, back, s):
    """The approximate budget: every column whose spread in the cluster is small enough.

    Categories in the printed models: G_d - G_kd > eps_c G_d. In the likelihood model, G_d is the
    entropy of the whole table, and both are per cell.
    """
    mask = [False] * back.D
    for d in range(back.D):
        if k.S[d] == 0.0 or not back.varies[d]:
            continue
        if d < back.p:
            eps = s.numeric_threshold
            limit = eps[1] if isinstance(eps, tuple) else eps * back.variance[d]
            mask[d] = k.SS[d] / k.S[d] < limit
        else:
            if s.model == "likelihood":
                G, G_k = entropy(back.counts[d - back.p]), entropy(k.counts[d - back.p])
            else:
                G, G_k = printed_entropies(k, back, d)
            mask[d] = G - G_k > s.categorical_threshold * G
    return mask


def select(clusters, back, s):
    """Set the masks of fitted clusters."""
    if s.sharing == 1.0:
        summed = [sum(k.gain[d] for k in clusters) for d in range(back.D)]
        if s.selection == "fixed":
            shared = top_per_kind(summed, back, s.fraction)
        else:
            shared = [back.varies[d] and summed[d] > len(clusters) * s.F_delta for d in range(back.D)]
    for k in clusters:
        if s.sharing == 1.0:
            k.mask = list(shared)
        elif s.selection == "fixed":
            scores = k.gain if s.model == "likelihood" else printed_scores(k, back, s.model)
            k.mask = top_per_kind(scores, back, s.fraction)
        elif s.selection == "free":
            k.mask = [back.varies[d] and k.gain[d] > s.F_delta for d in range(back.D)]
        else:
            k.mask = within_thresholds(k, back, s)
        if s.model != "likelihood" and not any(k.mask):
            # with an empty mask the printed distance is 0 and the cluster swallows every row
            for d in top(k.gain, [d for d in range(back.D) if back.varies[d]], 1):
                k.mask[d] = True


# ----------------------------------------------------------------------------------------
# A new cluster around one row
# ----------------------------------------------------------------------------------------


def newcomer(row, w, clusters, opened, back, s):
    """The cluster that this row would open: its parameters, gains and mask.

    Likelihood model: eta from u = min(w, 1) observations, zeta = x, sigma = sigma_0 (wide),
    mask from the gains of the row alone. Printed models: eta from one observation, sigma = 1,
    mask drawn column by column with the probabilities that the masks of the ``clusters`` so far
    suggest.
    """
    p, D = back.p, back.D
    k = SimpleNamespace(weight=0.0, gain=[0.0] * D, mask=[False] * D)
    k.own = [back.varies[d] and not is_missing(back, d, row[d]) for d in range(D)]
    k.zeta, k.variance, k.eta = list(back.zeta), list(back.variance), [list(e) for e in back.eta]
    likelihood = s.model == "likelihood"
    u = min(w, 1.0) if likelihood else 1.0
    for d in range(D):
        if not k.own[d]:
            continue
        if d < p:
            k.zeta[d] = row[d]
            k.variance[d] = back.variance[d] if likelihood else 1.0
            k.gain[d] = u * (row[d] - back.zeta[d]) ** 2 / (2.0 * back.variance[d])
        else:
            eta_0 = back.eta[d - p]
            point = [u if t == row[d] else 0.0 for t in range(len(eta_0))]
            k.eta[d - p] = smoothed(point, eta_0, 1.0 if likelihood else 0.1)
            k.gain[d] = max((u + 1.0) * divergence(smoothed(point, eta_0, 1.0), eta_0), 0.0)
    if not likelihood:
        k.mask = random_mask(clusters, opened, back, s)
    elif s.sharing == 1.0:
        k.mask = list(clusters[0].mask)
    elif s.selection == "free":
        k.mask = [back.varies[d] and k.gain[d] > s.F_delta for d in range(D)]
    else:
        k.mask = top_per_kind(k.gain, back, s.fraction)
    return k


def random_mask(clusters, opened, back, s):
    """v_d ~ Bernoulli(mean over the clusters of nu_{v_kd}); an empty draw gets a random column."""
    nu = selection_probabilities(s.fraction, s.prior_variance)
    columns = [d for d in range(back.D) if back.varies[d]]
    mask = [False] * back.D
    for d in columns:
        probability = sum(nu[int(k.mask[d])] for k in clusters) / len(clusters)
        mask[d] = uniform(s.seed, s.start, 1, opened, d) < probability
    if columns and not any(mask):
        mask[columns[floor(uniform(s.seed, s.start, 2, opened) * len(columns))]] = True
    return mask


def pays_to_open(row, w, best, k, back, s):
    """Whether the row opens cluster k rather than pay ``best``, its cheapest d'."""
    if w <= 0.0:
        return False
    if s.model == "likelihood":
        gain = sum(k.gain[d] for d in range(back.D) if k.mask[d])
        return min(w, 1.0) * best > s.price + s.F_delta * sum(k.mask) - gain + OPENING_SLACK
    # the paper compares d_nk = d'_nk + sum of l0 over categorical cells with the price
    categorical = sum(background_cost(back, d, row[d]) for d in range(back.p, back.D))
    return best > s.price - categorical + OPENING_SLACK


# ----------------------------------------------------------------------------------------
# Objective, pass, fit
# ----------------------------------------------------------------------------------------


def value(rows, weight, clusters, back, s):
    """J of fitted clusters with their masks."""
    kinds = range(back.D) if s.model == "likelihood" else range(back.p, back.D)
    J = sum(w * background_cost(back, d, row[d]) for w, row in zip(weight, rows, strict=True) for d in kinds)
    return J + cost_of_clusters(clusters, back, s)


def cost_of_clusters(clusters, back, s):
    """J less the background cost of the rows."""
    J = s.price * len(clusters)
    for k in clusters:
        J += s.F_delta * sum(k.mask)
        for d in range(back.D):
            if not k.mask[d]:
                continue
            if s.model == "likelihood":
                J -= k.gain[d]
            elif d < back.p:
                J += k.SS[d] / (2.0 * k.variance[d])
            else:
                j = d - back.p
                for c, eta, eta_0 in zip(k.counts[j], k.eta[j], back.eta[j], strict=True):
                    if c > 0.0:
                        J -= c * log(eta / eta_0)
    return J


def visit(rows, weight, labels, clusters, opened_before, back, s):
    """One pass of Algorithm 2, row after row: the new labels and the clusters opened, in order."""
    labels, newcomers = list(labels), []
    for n, (row, w) in enumerate(zip(rows, weight, strict=True)):
        costs = [relative_cost(row, k, back, s) for k in clusters]
        if costs[labels[n]] - min(costs) > STAY_SLACK:
            labels[n] = costs.index(min(costs))
        best = costs[labels[n]]
        for j, k in enumerate(newcomers):
            cost = relative_cost(row, k, back, s)
            if cost < best:
                best, labels[n] = cost, len(clusters) + j
        if w > 0.0 and len(clusters) + len(newcomers) < s.cap:
            opened = opened_before + len(newcomers)
            k = newcomer(row, w, clusters + newcomers, opened, back, s)
            if pays_to_open(row, w, best, k, back, s):
                labels[n] = len(clusters) + len(newcomers)
                newcomers.append(k)
    return labels, newcomers


def refit(rows, weight, labels, back, s):
    """Drop clusters of weight 0, fit the others, set their masks: labels 0..K-1 and clusters.

    Rows of weight 0 whose cluster is gone go to the cheapest cluster that stays.
    """
    weight_of = dict.fromkeys(sorted(set(labels)), 0.0)
    for label, w in zip(labels, weight, strict=True):
        weight_of[label] += w
    kept = [label for label in weight_of if weight_of[label] > 0.0]
    clusters = []
    for label in kept:
        members = [n for n in range(len(rows)) if labels[n] == label]
        clusters.append(fit_cluster([rows[n] for n in members], [weight[n] for n in members], back, s.model))
    select(clusters, back, s)
    renumbered = []
    for n, row in enumerate(rows):
        if labels[n] in kept:
            renumbered.append(kept.index(labels[n]))
        else:
            costs = [relative_cost(row, k, back, s) for k in clusters]
            renumbered.append(costs.index(min(costs)))
    return renumbered, clusters


def merged(rows, weight, labels, back, s):
    """Merge the pair that lowers J most while J falls, then all clusters if that does: labels, clusters."""
    labels, clusters = refit(rows, weight, labels, back, s)
    now = value(rows, weight, clusters, back, s)
    above = now - cost_of_clusters(clusters, back, s)

    def joined(parts):
        members = [n for n in range(len(rows)) if labels[n] in parts]
        union = fit_cluster([rows[n] for n in members], [weight[n] for n in members], back, s.model)
        after = [copy(k) for j, k in enumerate(clusters) if j not in parts]
        after.insert(parts[0], union)
        select(after, back, s)
        return above + cost_of_clusters(after, back, s), parts

    while len(clusters) > 1:
        K = len(clusters)
        J, parts = min(
            (joined((k, j)) for k in range(K) for j in range(k + 1, K)), key=lambda found: found[0]
        )
        if not now - 1e-9 * max(1.0, abs(now)) > J:
            J, parts = joined(tuple(range(K)))
            if not now - 1e-9 * max(1.0, abs(now)) > J:
                break
        labels = [parts[0] if label in parts else label for label in labels]
        labels, clusters = refit(rows, weight, labels, back, s)
        now = J
    return labels, clusters


def closed(rows, weight, labels, back, s):
    """Close the cluster whose rows cost least more at their second cheapest one, while that is less than the
    price: labels, clusters.
    """
    labels, clusters = refit(rows, weight, labels, back, s)
    while len(clusters) > 1:
        rise, second = [0.0] * len(clusters), []
        for row, w, label in zip(rows, weight, labels, strict=True):
            costs = [relative_cost(row, k, back, s) for k in clusters]
            own, costs[label] = costs[label], inf
            second.append(costs.index(min(costs)))
            rise[label] += w * (min(costs) - own)
        k = rise.index(min(rise))
        if not rise[k] < s.price - 1e-9 * max(1.0, s.price):
            break
        labels = [second[n] if label == k else label for n, label in enumerate(labels)]
        labels, clusters = refit(rows, weight, labels, back, s)
    return labels, clusters


def settings(
    *,
    price,
    fraction=0.5,
    prior_variance=None,
    selection="fixed",
    sharing=0.0,
    model="likelihood",
    categorical_threshold=0.95,
    numeric_threshold=0.5,
    cap=100,
    seed=0,
    start=0,
):
    """The options of a fit in one namespace, with F_Delta."""
    if selection not in ("fixed", "free", "threshold"):
        raise ValueError(f"selection {selection!r} is none of fixed, free, threshold")
    if sharing not in (0.0, 1.0) or (sharing and selection == "threshold"):
        raise ValueError("sharing is neither 0 nor 1, or has no meaning")
    if model not in ("likelihood", "paper", "paper-relative", "paper-fixed"):
        raise ValueError(f"model {model!r} is none of likelihood, paper, paper-relative, paper-fixed")
    return SimpleNamespace(
        price=price,
        fraction=fraction,
        prior_variance=prior_variance,
        selection=selection,
        sharing=sharing,
        model=model,
        categorical_threshold=categorical_threshold,
        numeric_threshold=numeric_threshold,
        cap=cap,
        seed=seed,
        start=start,
        F_delta=price_terms(fraction, prior_variance)[2],
    )


def prepare(numeric, codes, n_levels, labels, weight):
    """Rows, weights, background and integer labels of a fit."""
    rows = as_rows(numeric, codes)
    weight = [1.0] * len(rows) if weight is None else np.asarray(weight, float).tolist()
    if not any(w > 0.0 for w in weight):
        raise ValueError("all rows have weight 0: there is nothing to fit")
    back = background(rows, np.shape(numeric)[1], [int(T) for T in n_levels], weight)
    return rows, weight, back, np.asarray(labels, dtype=np.int64).tolist()


def objective(numeric, codes, n_levels, labels, *, weight=None, **options):
    """J of a partition: parameters and masks are fitted to it as at the end of a pass."""
    s = settings(**options)
    rows, weight, back, labels = prepare(numeric, codes, n_levels, labels, weight)
    labels, clusters = refit(rows, weight, labels, back, s)
    return value(rows, weight, clusters, back, s)


def row_costs(numeric, codes, fitted):
    """Full cost (n, K) of rows under fitted clusters: background of every present cell plus d'.

    In the printed models this is the paper's d_nk: only categorical cells have a background,
    F_Delta |v_k| included.
    """
    back, s = fitted.background, fitted.settings
    first = 0 if s.model == "likelihood" else back.p
    rows = as_rows(numeric, codes)
    costs = np.zeros((len(rows), len(fitted.clusters)))
    for n, row in enumerate(rows):
        base = sum(background_cost(back, d, row[d]) for d in range(first, back.D))
        for j, k in enumerate(fitted.clusters):
            costs[n, j] = base + relative_cost(row, k, back, s)
    return costs


def fit(
    numeric,
    codes,
    n_levels,
    labels,
    *,
    price,
    fraction=0.5,
    prior_variance=None,
    selection="fixed",
    sharing=0.0,
    model="likelihood",
    categorical_threshold=0.95,
    numeric_threshold=0.5,
    cap=100,
    max_iter=100,
    weight=None,
    seed=0,
    start=0,
):
    """CRAFT from a start partition until a pass moves no row and opens nothing.

    Parameters
    ----------
    numeric : array (n, p)
        Floats, NaN = missing.
    codes : array (n, q)
        Integers in 0..n_levels[d]; ``n_levels[d]`` = missing.
    n_levels : sequence of q ints
    labels : sequence of n non-negative ints
        The start; numbered 0..K-1 in order of value.
    price : float
        Price of a cluster in nats.

    Returns
    -------
    SimpleNamespace
        ``labels`` (by first appearance), ``mask`` and ``gains`` (K, p+q), ``objective``,
        ``path`` (J of the start and after every pass), ``n_iter`` (passes), ``converged``,
        ``centers`` and ``variances`` (K, p), ``level_probabilities`` (q arrays (K, T_d)),
        ``n_clusters``; and for `row_costs` the ``clusters``, the ``background`` and the
        ``settings``. Parameters are given for all columns, selected or not; columns without a
        cell in the cluster show the background. Gains are those of the likelihood in every
        model.
    """
    s = settings(
        price=price,
        fraction=fraction,
        prior_variance=prior_variance,
        selection=selection,
        sharing=sharing,
        model=model,
        categorical_threshold=categorical_threshold,
        numeric_threshold=numeric_threshold,
        cap=cap,
        seed=seed,
        start=start,
    )
    rows, weight, back, labels = prepare(numeric, codes, n_levels, labels, weight)
    labels, clusters = refit(rows, weight, labels, back, s)
    path = [value(rows, weight, clusters, back, s)]
    opened, n_iter, converged = 0, 0, False
    closes = model == "likelihood" or len(clusters) > 1
    rises = selection == "threshold" or s.price + min(s.F_delta, 0.0) * sum(back.varies) < 0.0
    while n_iter < max_iter and not converged:
        moved_labels, newcomers = visit(rows, weight, labels, clusters, opened, back, s)
        opened += len(newcomers)
        n_iter += 1
        converged = not newcomers and all(
            new == old for new, old, w in zip(moved_labels, labels, weight, strict=True) if w > 0.0
        )
        labels, clusters = refit(rows, weight, moved_labels, back, s)
        if converged and closes:
            K = len(clusters)
            labels, clusters = (merged if model == "likelihood" else closed)(rows, weight, labels, back, s)
            converged = len(clusters) == K
            if not converged and (rises or model != "likelihood"):
                s.cap = 0  # no cluster opens any more
        path.append(value(rows, weight, clusters, back, s))

    order = list(dict.fromkeys(labels))  # first appearance
    clusters = [clusters[k] for k in order]
    K = len(clusters)
    return SimpleNamespace(
        labels=np.array([order.index(k) for k in labels], dtype=np.int64),
        mask=np.array([k.mask for k in clusters], dtype=bool).reshape(K, back.D),
        gains=np.array([k.gain for k in clusters], dtype=float).reshape(K, back.D),
        objective=path[-1],
        path=path,
        n_iter=n_iter,
        converged=converged,
        centers=np.array([k.zeta for k in clusters], dtype=float).reshape(K, back.p),
        variances=np.array([k.variance for k in clusters], dtype=float).reshape(K, back.p),
        level_probabilities=[np.array([k.eta[d] for k in clusters]) for d in range(back.q)],
        n_clusters=K,
        clusters=clusters,
        background=back,
        settings=s,
    )
