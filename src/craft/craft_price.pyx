"""Gains and selection of features in CRAFT, and its description-length price: exact cost of a cluster.

Under the description-length price a cluster costs

    h + log(D + 1) + log C(D, q) + sum_{d in v} (p_d h - gain_d) - S log(S / N),      h = price_factor * (1/2)
    log N

with the q = |v| features that minimise it; p_d is the number of parameters of feature d. Everything is
computed from exact moments, so clusters and merges are priced without reading the rows. Under a fixed price a
feature costs F_Delta (`feature_price`) and the mask no code.

A column of weight w counts as w copies of it that are selected together: its gain and price are w times as
large, and D and q are sums of weights. log C(D, q) is concave in q, so that all copies or none is best. Where
D is no integer, log C(D, q) is linear between the ceil(D) + 1 values of q at equal distances from 0 to D.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, floor, log
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from craftc._kernels._common cimport check
from craftc._kernels.craft cimport CRAFT_FEW, TILE, levels_of, repeated
from craftc._kernels.craft_price cimport (
    FIXED, FREE, GIVEN, POOLED, PRICED, SOFT, THRESHOLD, Pricing, parts_t, ranked_t,
)
from craftc._kernels.craft_shared cimport (
    CRAFT_TILT_NEAR, CRAFT_TILT_RANKED, FEW_SHARES, Tilts, categorical_likelihood, craft_is_normal,
    craft_joined_sums, craft_left_sums, craft_no_tilt, craft_normal_gain, craft_normal_likelihood, craft_sums,
    craft_theta, craft_tilt_fit, craft_tilt_likelihood, craft_tilt_most, craft_tilt_sums, fit_t, fit_tilt,
    tilted_t,
)
from craftc._kernels.moments cimport CRAFTC_NUMERIC_CELLS, Grid, moments_mean

fits_factor = 0x9E3779B97F4A7C15

cdef double TIE = 1e-9      # scores closer than this, relative to the largest, are ties
cdef double NOISE = 1e-12   # gains up to this a row are rounding: those of a cluster that is the whole table

SELECTIONS = {  # type: dict[str, int]
    "priced": PRICED, "free": FREE, "fixed": FIXED, "global": GIVEN, "threshold": THRESHOLD, "soft": SOFT,
    "pooled": POOLED,
}


cdef inline bint _before(const ranked_t *x, const ranked_t *y) noexcept nogil:
    return x.rank > y.rank or (x.rank == y.rank and x.feature < y.feature)


cdef void _sort(ranked_t *ranked, Py_ssize_t n) noexcept nogil:
    """Highest rank first, ties to the lower feature.

    Shell's sort, because calls through qsort cost more than these few comparisons.
    """
    cdef Py_ssize_t gap = 1, i, j
    cdef ranked_t one
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            one, j = ranked[i], i
            while j >= gap and _before(&one, &ranked[j - gap]):
                ranked[j] = ranked[j - gap]
                j -= gap
            ranked[j] = one
        gap //= 3


cdef class Pricing:
    """Prices and background by which groups of rows are priced. Arrays are contiguous and kept alive.

    Parameters
    ----------
    grid : Grid
    count_weight : float
        Weight of one count.
    total : float
        N, weight of the whole table.
    h : float
        Price of a cluster: price_factor * log(N) / 2, or Lambda.
    feature_price : float
        F_Delta of every selected feature; 0 under the description-length price.
    mixing : bool
        Whether the cost contains the entropy of the labels, - S log(S / N).
    centre, scale : ndarray (p,)
        z = (x - centre) * scale.
    mean, variance, inverse_deviation : ndarray (p,)
        Background zeta_0, sigma_0^2 and 1 / sigma_0 on the grid.
    frequency : ndarray (n_levels,)
        Background eta_0.
    usable : ndarray (D,) of uint8
    price : ndarray (D,)
        p_d h; 0 under a fixed price.
    code : float
        Code of the number of features of a mask: (1 - s) log(n_usable + 1), s of src/craft/craft_sharing.pyx.
    log_choose : ndarray (n_codes + 1,)
        Code of masks by the weight q of their features, from 0 to `usable_weight` at equal distances: (1 - s)
        log C(usable_weight, q).
    entropy : ndarray (q,)
        G_d of the whole table.
    n_numeric, n_categorical : int
        Budgets of "fixed".
    thresholds : (float, ndarray (p,))
        eps_c, and the variance below which "threshold" selects each numeric column, grid units.
    tilts : Tilts
        The columns of levels whose distribution in a cluster is a tilt.

    Attributes
    ----------
    shared : Shared, optional
        Distributions of the cells of all clusters that do not select a feature; None: they have that of the
        whole table.
    relative : bool
        Whether gains are those over `shared`, and not those over the whole table.
    usable_weight : float, n_codes : int
        Sum of the weights of the usable features, and this sum rounded up.
    """

    def __cinit__(self, Grid grid not None, double count_weight, double total, double h, double feature_price,
                  bint mixing, centre, scale, mean: Floats, variance: Floats, inverse_deviation: Floats,
                  frequency: Floats, usable: Flags, price: Floats, double code, log_choose: Floats,
                  entropy: Floats, Py_ssize_t n_numeric, Py_ssize_t n_categorical,
                  thresholds: tuple[float, Floats], Tilts tilts not None):
        self.grid, self.count_weight, self.total, self.h, self.mixing = grid, count_weight, total, h, mixing
        self.feature_price, self.code = feature_price, code
        self.n_usable = int(np.count_nonzero(usable))
        self.usable_weight = float(np.count_nonzero(usable[:grid.p]) + tilts.weight @ usable[grid.p:])
        self.n_codes = int(np.ceil(self.usable_weight))
        self.n_numeric, self.n_categorical = n_numeric, n_categorical
        self.eps_c, variance_limit = thresholds
        # repeated once per row of a tile, as the pass wants them; the first p (q) entries are the columns'
        # own
        repeat = TILE if max(grid.p, grid.q) <= CRAFT_FEW else 1
        self.centre, self.scale = repeated(centre, repeat), repeated(scale, repeat)
        self.arguments = (grid, count_weight, total, h, feature_price, mixing, centre, scale, mean, variance,
                          inverse_deviation, frequency, usable, price, code, log_choose, entropy, n_numeric,
                          n_categorical, thresholds, tilts)
        self.widths = np.array([levels_of(grid, d) for d in range(grid.q)], np.intp)
        cdef const uint8_t[::1] flags = usable
        cdef const Py_ssize_t[::1] widths = self.widths
        check(flags.shape[0] == grid.p + grid.q, "usable")
        check(len(centre) == len(scale) == len(mean) == len(variance) == len(inverse_deviation) == grid.p,
              "a numeric column")
        check(len(frequency) == grid.n_levels, "frequency")
        check(len(price) == flags.shape[0], "price")
        check(tilts.grid.q == grid.q and tilts.grid.n_levels == grid.n_levels, "tilts")
        self.tilts, self.tilt = tilts, tilts.column
        check(len(entropy) == grid.q and len(variance_limit) == grid.p, "entropy or thresholds")
        self.D = flags.shape[0]
        self.usable = &flags[0] if self.D else NULL
        self.n_levels = &widths[0] if grid.q else NULL
        self.centre_, self.scale_ = _first(self.centre), _first(self.scale)
        self.mean, self.variance = _first(mean), _first(variance)
        self.inverse_deviation = _first(inverse_deviation)
        self.variance_limit = _first(variance_limit)
        self.relative = False
        self.frequency, self.price = _first(frequency), _first(price)
        self.log_choose, self.entropy = _first(log_choose), _first(entropy)

    def among(self, usable: Flags, double code, log_choose: Floats) -> Pricing:
        """The same prices where other features are usable, and the codes of masks among them."""
        arguments = list(self.arguments)
        arguments[12], arguments[14], arguments[15] = usable, code, log_choose
        return Pricing(*arguments)

    def __reduce__(self):
        return Pricing, self.arguments, (self.shared, self.relative)

    def __setstate__(self, state):
        self.shared, self.relative = state


cdef int check_selection(Pricing P, int selection) except -1:
    """Raise unless a rule selects features, and what it reads is there.

    POOLED has kernels of its own: craft_masks.
    """
    check(0 <= selection < POOLED, "selection")
    check(not P.relative or P.shared is not None, "pricing")
    check(selection != PRICED or len(P.arguments[15]) > P.n_codes, "log_choose")
    return 0


cdef const double *_first(array) except? NULL:
    cdef const double[::1] view = array
    return &view[0] if view.shape[0] else NULL


def gains(
    const int64_t[:, ::1] groups not None,  # IN  (K, width) exact moments
    Grid grid not None,
    double count_weight,                    # weight of one count
    const double[::1] frequency not None,   # IN  (n_levels,) background eta_0
    const double[::1] variance not None,    # IN  (p,) background sigma_0^2, grid units
    const uint8_t[::1] usable not None,     # IN  (p + q,) 0 = constant column: gain 0
    const double[:, ::1] shift not None,    # IN  (K, p) (zeta_k - zeta_0) / sigma_0
    const double[:, ::1] deviations not None,  # IN  (K, p) sum of squared deviations, weighted, grid units
    double prior,                           # alpha = kappa; of a tilt: 1
    Tilts tilts not None,
    double[:, ::1] gain not None,           # OUT (K, p + q) nats, >= 0
):
    """What each feature saves in each cluster over the background, less the penalty of the pseudo-counts."""
    check(groups.shape[1] == grid.width, "groups")
    check(frequency.shape[0] == grid.n_levels and variance.shape[0] == grid.p, "frequency or variance")
    check(usable.shape[0] == grid.p + grid.q, "usable")
    check(shift.shape[0] == deviations.shape[0] == groups.shape[0]
          and shift.shape[1] == deviations.shape[1] == grid.p, "shift, deviations")
    check(gain.shape[0] == groups.shape[0] and gain.shape[1] == grid.p + grid.q, "gain")
    cdef Py_ssize_t k, d
    cdef double S
    cdef tilted_t cells
    check(tilts.grid.q == grid.q and tilts.grid.n_levels == grid.n_levels, "tilts")
    with nogil:
        for k in range(groups.shape[0]):
            for d in range(grid.p):
                S = count_weight * groups[k, grid.first_numeric + CRAFTC_NUMERIC_CELLS * d]
                gain[k, d] = numeric_gain(S, deviations[k, d] / variance[d], shift[k, d],
                                          prior) if usable[d] and S > 0 else 0.0
            for d in range(grid.q):
                if not usable[grid.p + d]:
                    gain[k, grid.p + d] = 0.0
                    continue
                gain[k, grid.p + d] = tilts.weight_[d] * (
                    fit_tilt(&tilts.column[d], &groups[k, 1 + grid.level_start_[d]], levels_of(grid, d),
                             count_weight, &cells)
                    if tilts.column[d].n else
                    categorical_gain(&groups[k, 1 + grid.level_start_[d]], &frequency[grid.level_start_[d]],
                                     levels_of(grid, d), count_weight, prior)
                )


cdef double numeric_gain(double S, double spread, double shift, double prior) noexcept nogil:
    """Gain of a numeric column: S present cells, spread = SS / sigma_0^2, shift = (zeta_k - zeta_0) /
    sigma_0.
    """
    cdef double gain = 0.5 * (spread + S * shift * shift - S
                              - (S + prior) * log((spread + prior) / (S + prior)))
    return gain if gain > NOISE * (S + prior) else 0.0


cdef double categorical_gain(
    const int64_t *counts, const double *frequency, Py_ssize_t n_levels, double count_weight, double prior,
) noexcept nogil:
    """Gain of a categorical column, (S + alpha) KL(eta_k || eta_0)."""
    cdef Py_ssize_t t
    cdef int64_t seen = 0
    cdef double total, count, gain = 0.0
    for t in range(n_levels):
        seen += counts[t]
    if seen == 0:
        return 0.0
    total = count_weight * seen + prior
    for t in range(n_levels):
        if frequency[t] > 0:
            count = count_weight * counts[t] + prior * frequency[t]
            gain += count * log(count / (total * frequency[t]))
    return gain if gain > NOISE * total else 0.0


cdef double known_tilt(Pricing P, Py_ssize_t d, craft_sums sums, craft_theta *theta) noexcept nogil:
    """theta and A(theta) of cells of tilted column d of levels with these sums; returns their gain over the
    whole table's distribution, times the weight of the column, by a table of fits: searches come to the same
    cells again and again. On one thread.
    """
    cdef uint64_t key
    cdef uint64_t *bits = <uint64_t *> &sums
    cdef fit_t *fit
    if sums.weight == 0.0:
        theta[0] = craft_no_tilt()
        return 0.0
    key = ((bits[0] * fits_factor + bits[1]) * fits_factor + bits[2]) * fits_factor
    fit = _place(P, d, key)
    if not fit.known or memcmp(&fit.cells.sums, &sums, sizeof(sums)) != 0:
        fit.known, fit.cells.sums = True, sums
        fit.gain = craft_tilt_fit(&P.tilt[d], P.count_weight, sums, CRAFT_TILT_NEAR, &fit.cells.theta)
    theta[0] = fit.cells.theta
    return P.tilts.weight_[d] * fit.gain


cdef inline fit_t *_place(Pricing P, Py_ssize_t d, uint64_t key) noexcept nogil:
    """Where the fit of this key is, or will be, among those of column d of levels, which are next to each
    other; those of another weight of the rows are forgotten.
    """
    cdef Py_ssize_t n = P.shared.fits.n_of_column
    if P.shared.fits.count_weight != P.count_weight:
        P.shared.fits.count_weight = P.count_weight
        memset(P.shared.fits.fits_, 0, P.grid.q * n * sizeof(fit_t))
    return P.shared.fits.fits_ + d * n + (((key >> 32) * <uint64_t> n) >> 32)


cdef double known_shares(Pricing P, Py_ssize_t d, const int64_t *counts) noexcept nogil:
    """Gain of counted cells of column d of shares over the whole table's distribution, by the table of fits
    where the column has few levels. On one thread.
    """
    cdef Py_ssize_t n = P.n_levels[d], t
    cdef uint64_t key = 0
    cdef fit_t *fit
    if n <= FEW_SHARES:
        for t in range(n):
            key = (key + <uint64_t> counts[t]) * fits_factor
        fit = _place(P, d, key)
        if fit.known and memcmp(&fit.cells, counts, n * sizeof(int64_t)) == 0:
            return fit.gain
        fit.known = True
        memcpy(&fit.cells, counts, n * sizeof(int64_t))
        fit.gain = _shares_gain(P, d, counts)
        return fit.gain
    return _shares_gain(P, d, counts)


cdef inline double _shares_gain(Pricing P, Py_ssize_t d, const int64_t *counts) noexcept nogil:
    return categorical_gain(counts, P.frequency + P.grid.level_start_[d], P.n_levels[d], P.count_weight, 1.0)


cdef double levels_gain(
    Pricing P, const int64_t *group, Py_ssize_t d, tilted_t *cells, bint alone,
) noexcept nogil:
    """Gain of column d of levels in a group, times its weight; the cells of a tilted column receive their
    sums and tilt. `alone`: no other thread uses the pricing, so that fits are found again.
    """
    cdef const int64_t *counts = group + 1 + P.grid.level_start_[d]
    if not P.usable[P.grid.p + d]:
        memset(cells, 0, sizeof(tilted_t))
        return 0.0
    if P.tilt[d].n and alone and P.shared is not None:
        cells.sums = craft_tilt_sums(&P.tilt[d], counts, P.n_levels[d])
        return known_tilt(P, d, cells.sums, &cells.theta)
    if P.tilt[d].n:
        return P.tilts.weight_[d] * fit_tilt(&P.tilt[d], counts, P.n_levels[d], P.count_weight, cells)
    return P.tilts.weight_[d] * (known_shares(P, d, counts) if alone and P.shared is not None else
                                 _shares_gain(P, d, counts))


cdef void _fit_numeric(Pricing P, const int64_t *group, parts_t parts) noexcept nogil:
    """Parameters and gains of the numeric columns of a group, over the whole table."""
    cdef Py_ssize_t d
    cdef const int64_t *cell
    cdef double S, mean, spread, deviations = 0.0
    for d in range(P.grid.p):
        cell = group + P.grid.first_numeric + CRAFTC_NUMERIC_CELLS * d
        S = P.count_weight * cell[0]
        parts.shift[d] = parts.spread[d] = parts.gain[d] = 0.0
        parts.precision[d] = 1.0
        if S > 0:
            mean = moments_mean(cell, &deviations)
            spread = P.count_weight * deviations / P.variance[d]
            parts.shift[d] = (mean - P.mean[d]) * P.inverse_deviation[d]
            parts.spread[d] = spread
            parts.precision[d] = (S + 1.0) / (spread + 1.0)
            parts.gain[d] = numeric_gain(S, spread, parts.shift[d], 1.0) if P.usable[d] else 0.0


cdef void fit_group(Pricing P, const int64_t *group, parts_t parts, bint alone=False) noexcept nogil:
    """Parameters and gains of one group; gains over the shared distributions if P.relative, otherwise over
    the whole table. `alone`: as in `levels_gain`.
    """
    cdef Py_ssize_t d
    _fit_numeric(P, group, parts)
    for d in range(P.grid.q):
        parts.gain[P.grid.p + d] = levels_gain(P, group, d, &parts.tilted[d], alone)
    if P.relative:
        for d in range(P.grid.p, P.D):
            if P.usable[d]:
                parts.gain[d] -= shared_likelihood(P, group, parts, d)


cdef void fit_over_table(Pricing P, const int64_t *group, parts_t parts, bint alone) noexcept nogil:
    """Parameters and gains of one group over the whole table."""
    cdef bint relative = P.relative
    P.relative = False
    fit_group(P, group, parts, alone)
    P.relative = relative


cdef double price_of_side(
    Pricing P, const int64_t *side, parts_t parts, const parts_t whole, const parts_t *other, uint8_t *mask,
    bint alone,
) noexcept nogil:
    """As `price_of` under the description-length price, of a side of a divided group, to rank divisions.
    `whole` are the parameters and gains of the group over the whole table, `other` those of the other side,
    if that has been priced.

    What a side gains by a tilt of its own over that of the group is what normal densities gain, where these
    are close to it. Other tilts that cannot pay are not fitted.
    """
    cdef Py_ssize_t d
    cdef tilted_t *cells
    cdef double gain
    _fit_numeric(P, side, parts)
    for d in range(P.grid.q):
        if P.tilt[d].n:
            cells = &parts.tilted[d]
            cells.sums = (craft_left_sums(whole.tilted[d].sums, other.tilted[d].sums) if other != NULL else
                          craft_tilt_sums(&P.tilt[d], side + 1 + P.grid.level_start_[d], P.n_levels[d]))
            if P.usable[P.grid.p + d] and craft_is_normal(&P.tilt[d]):
                gain = craft_tilt_likelihood(P.count_weight, cells.sums, whole.tilted[d].theta)
                gain += craft_normal_gain(&P.tilt[d], P.count_weight, cells.sums)
                gain -= craft_normal_likelihood(&P.tilt[d], P.count_weight, cells.sums, whole.tilted[d].sums)
                _set_gain(P, side, d, parts, P.tilts.weight_[d] * gain)
                continue
        _gain_that_may_pay(P, side, d, parts, INFINITY, alone)
    return existence_cost(P, side) + _choose(P, PRICED, side, parts, mask)


cdef inline void _set_gain(
    Pricing P, const int64_t *group, Py_ssize_t d, parts_t parts, double gain,
) noexcept nogil:
    """Gain of column d of levels, over the whole table or the shared distribution."""
    parts.gain[P.grid.p + d] = max(gain, 0.0)
    if P.relative:
        parts.gain[P.grid.p + d] -= shared_likelihood(P, group, parts, P.grid.p + d)


cdef double price_of_union(
    Pricing P, const int64_t *union, parts_t parts, const parts_t one, const parts_t two, uint8_t *mask,
    bint alone,
) noexcept nogil:
    """The same of the union of two groups; `one` and `two` are their parameters and gains over the whole
    table. What the two lose by one tilt is what normal densities lose, where these are close to it.

    Other columns: without the priors, the gain of a union is at most the sum of the two. It has one prior
    where they have one each: hence twice the gains.
    """
    cdef Py_ssize_t d
    cdef double gain
    _fit_numeric(P, union, parts)
    for d in range(P.grid.q):
        if P.tilt[d].n:
            parts.tilted[d].sums = craft_joined_sums(one.tilted[d].sums, two.tilted[d].sums)
            if P.usable[P.grid.p + d] and craft_is_normal(&P.tilt[d]):
                gain = craft_normal_gain(&P.tilt[d], P.count_weight, parts.tilted[d].sums)
                gain -= craft_normal_gain(&P.tilt[d], P.count_weight, one.tilted[d].sums)
                gain -= craft_normal_gain(&P.tilt[d], P.count_weight, two.tilted[d].sums)
                gain *= P.tilts.weight_[d]
                _set_gain(P, union, d, parts, gain + one.gain[P.grid.p + d] + two.gain[P.grid.p + d])
                continue
        _gain_that_may_pay(P, union, d, parts, 2.0 * (one.gain[P.grid.p + d] + two.gain[P.grid.p + d]), alone)
    return existence_cost(P, union) + _choose(P, PRICED, union, parts, mask)


cdef void _gain_that_may_pay(
    Pricing P, const int64_t *group, Py_ssize_t d, parts_t parts, double most, bint alone,
) noexcept nogil:
    """Gain of column d of levels, at most `most` over the whole table; of a tilt, whose sums are known, a
    bound if that cannot pay.
    """
    cdef tilted_t *cells = &parts.tilted[d]
    cdef double shared, weight = P.tilts.weight_[d], doubtful = weight * (P.code + 2.0)
    if not P.tilt[d].n or not P.usable[P.grid.p + d]:
        parts.gain[P.grid.p + d] = levels_gain(P, group, d, cells, alone)
        if P.relative and P.usable[P.grid.p + d]:
            parts.gain[P.grid.p + d] -= shared_likelihood(P, group, parts, P.grid.p + d)
        return
    shared = shared_likelihood(P, group, parts, P.grid.p + d) if P.relative else 0.0
    most = min(most, weight * craft_tilt_most(&P.tilt[d], P.count_weight, cells.sums)) - shared
    if most - P.price[P.grid.p + d] >= -doubtful:
        most = weight * craft_tilt_fit(&P.tilt[d], P.count_weight, cells.sums, CRAFT_TILT_RANKED,
                                       &cells.theta) - shared
    parts.gain[P.grid.p + d] = most


cdef double shared_likelihood(Pricing P, const int64_t *group, parts_t parts, Py_ssize_t d) noexcept nogil:
    """What the shared distribution of feature d saves in a group over the distribution of the whole table,
    nats times the weight of the column; may be negative.
    """
    d -= P.grid.p
    if P.tilt[d].n:
        return P.tilts.weight_[d] * craft_tilt_likelihood(P.count_weight, parts.tilted[d].sums,
                                                          P.shared.theta_[d])
    return P.tilts.weight_[d] * P.count_weight * categorical_likelihood(
        group + 1 + P.grid.level_start_[d], P.shared.level_ + P.grid.level_start_[d], P.n_levels[d],
    )


cdef double weight_of(Pricing P, Py_ssize_t d) noexcept nogil:
    """Weight of feature d."""
    return 1.0 if d < P.grid.p else P.tilts.weight_[d - P.grid.p]


cdef double mask_code(Pricing P, double selected) noexcept nogil:
    """Code of a mask whose features have this weight, its number of features known."""
    cdef double at = selected
    cdef Py_ssize_t below
    if P.n_codes != P.usable_weight:
        at *= P.n_codes / P.usable_weight
    if at >= P.n_codes:
        return P.log_choose[P.n_codes]
    below = <Py_ssize_t> at
    at -= below
    if at == 0.0:
        return P.log_choose[below]
    return P.log_choose[below] + at * (P.log_choose[below + 1] - P.log_choose[below])


cdef double _choose(
    Pricing P, int selection, const int64_t *group, parts_t parts, uint8_t *mask,
) noexcept nogil:
    """Set the mask (GIVEN: leave it) and return the cost of the features: their prices and the code of the
    mask less the gains.
    """
    cdef Py_ssize_t d
    cdef double net, cost = 0.0
    if selection == PRICED:
        return _choose_priced(P, parts, mask)
    if selection == FIXED:
        _choose_budget(P, parts, mask)
    for d in range(P.D):
        net = parts.gain[d] - P.price[d]
        if selection == FREE:
            mask[d] = P.usable[d] and net > P.feature_price
        elif selection == SOFT:
            mask[d] = parts.gain[d] > 1e-9
        elif selection == THRESHOLD:
            mask[d] = P.usable[d] and _within(P, group, d)
        if mask[d]:
            cost -= net - P.feature_price
    return cost


cdef double _choose_priced(Pricing P, parts_t parts, uint8_t *mask) noexcept nogil:
    """The features of weight q that minimise log C(D, q) less the sum of net gains; of equal minima the
    smallest q.

    The best features are those of the largest net gains for their weights. A weight of 1 more changes the
    code of the mask by at most log D, up or down. A net gain above that is always selected, one below its
    negative never, and only the features between have to be sorted.
    """
    cdef Py_ssize_t d, n = 0, taken = 0
    cdef double tie_tolerance = 1.0, net, weight, total = 0.0, best, doubtful = P.code + 1.0, q = 0.0, all_q
    memset(mask, 0, P.D)
    for d in range(P.D):
        if P.usable[d]:
            tie_tolerance = max(tie_tolerance, fabs(parts.gain[d] - P.price[d]) / weight_of(P, d))
    tie_tolerance *= TIE
    doubtful += tie_tolerance
    for d in range(P.D):
        weight = weight_of(P, d)
        net = parts.gain[d] - P.price[d]
        if not P.usable[d] or net < -doubtful * weight:
            continue
        if net > doubtful * weight:
            total += net
            mask[d] = 1
            q += weight
        else:
            parts.ranked[n].rank, parts.ranked[n].net = floor(net / weight / tie_tolerance + 0.5), net
            parts.ranked[n].feature = d
            n += 1
    _sort(parts.ranked, n)
    net, all_q = total, q
    best = total - mask_code(P, q)
    for d in range(n):
        net += parts.ranked[d].net
        all_q += weight_of(P, parts.ranked[d].feature)
        best = max(best, net - mask_code(P, all_q))
    while total - mask_code(P, q) < best - tie_tolerance and taken < n:
        total += parts.ranked[taken].net
        mask[parts.ranked[taken].feature] = 1
        q += weight_of(P, parts.ranked[taken].feature)
        taken += 1
    return P.code + mask_code(P, q) - total


cdef void select_priced(Pricing P, parts_t parts, uint8_t *mask) noexcept nogil:
    """The mask of a fitted group under the description-length price."""
    _choose_priced(P, parts, mask)


cdef void _choose_budget(Pricing P, parts_t parts, uint8_t *mask) noexcept nogil:
    """The fixed budget: the best numeric and the best categorical features."""
    memset(mask, 0, P.D)
    _top(P, parts, 0, P.grid.p, P.n_numeric, mask)
    _top(P, parts, P.grid.p, P.D, P.n_categorical, mask)


cdef void _top(
    Pricing P, parts_t parts, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t count, uint8_t *mask,
) noexcept nogil:
    """Add the `count` usable features of start..stop-1 with the largest net gains to the mask; ties go to the
    lower feature.
    """
    cdef Py_ssize_t d, n = 0
    cdef double tie_tolerance = 1.0, net
    for d in range(start, stop):
        net = parts.gain[d] - P.price[d]
        if P.usable[d] and fabs(net) < INFINITY:
            tie_tolerance = max(tie_tolerance, fabs(net))
    tie_tolerance *= TIE
    for d in range(start, stop):
        if P.usable[d]:
            parts.ranked[n].net, parts.ranked[n].feature = parts.gain[d] - P.price[d], d
            parts.ranked[n].rank = floor(parts.ranked[n].net / tie_tolerance + 0.5)
            n += 1
    _sort(parts.ranked, n)
    for d in range(min(count, n)):
        mask[parts.ranked[d].feature] = 1


cdef bint _within(Pricing P, const int64_t *group, Py_ssize_t d) noexcept nogil:
    """The approximate budget on raw counts: entropy lower than the table's by more than eps_c of it, or
    variance below its limit.
    """
    cdef const int64_t *cell
    cdef double S = 0.0, inner = 0.0, deviations = 0.0, count
    cdef Py_ssize_t t
    if d < P.grid.p:
        cell = group + P.grid.first_numeric + CRAFTC_NUMERIC_CELLS * d
        if cell[0] == 0:
            return False
        moments_mean(cell, &deviations)
        return deviations / cell[0] < P.variance_limit[d]
    d -= P.grid.p
    for t in range(P.n_levels[d]):
        count = P.count_weight * group[1 + P.grid.level_start_[d] + t]
        S += count
        if count > 0:
            inner += count * log(count)
    return S > 0 and P.entropy[d] - (log(S) - inner / S) > P.eps_c * P.entropy[d]


cdef double price_of(
    Pricing P, int selection, const int64_t *group, parts_t parts, uint8_t *mask, bint alone,
) noexcept nogil:
    """Cost of one group in nats, its mask and parameters."""
    fit_group(P, group, parts, alone)
    return existence_cost(P, group) + _choose(P, selection, group, parts, mask)


cdef double existence_cost(Pricing P, const int64_t *group) noexcept nogil:
    """Price of the cluster itself and of the labels of its rows."""
    return P.h + P.count_weight * group[0] * mixing_cost(P, group)


cdef double mixing_cost(Pricing P, const int64_t *group) noexcept nogil:
    """-log(S / N), the cost of the label of each row of a group of weight S; 0 where labels are not priced.
    """
    return -log(P.count_weight * group[0] / P.total) if P.mixing else 0.0


cdef Py_ssize_t parts_length(Pricing P) noexcept nogil:
    """Doubles of the parts of one group."""
    return 3 * P.grid.p + P.D + 3 * P.D + 8 * P.grid.q


cdef parts_t parts_in(Pricing P, double *work) noexcept nogil:
    """The parts of one group, stored in `work`."""
    cdef parts_t parts
    parts.shift = work
    parts.precision = work + P.grid.p
    parts.spread = work + 2 * P.grid.p
    parts.gain = work + 3 * P.grid.p
    parts.ranked = <ranked_t *> (work + 3 * P.grid.p + P.D)
    parts.tilted = <tilted_t *> (work + 3 * P.grid.p + 4 * P.D)
    return parts


def parts_size(Pricing pricing not None) -> int:
    """Doubles of scratch that pricing one group needs."""
    return parts_length(pricing)


def gains_of_parts(Pricing pricing not None, work not None: Floats) -> Floats:
    """(K, D) gains among the parts (K, parts_size) of priced groups."""
    first = 3 * pricing.grid.p
    return work[:, first:first + pricing.D]


def level_likelihoods_of_parts(pricing: Pricing, work: Floats, levels: Positions) -> Floats:
    """(K, m) log likelihoods of tilted features under the shared distributions, over those of the whole
    table, among the parts (K, parts_size) of priced groups.
    """
    first = 3 * pricing.grid.p + 4 * pricing.D
    sums = work[:, first:first + 8 * pricing.grid.q].reshape(len(work), pricing.grid.q, 8)
    sums = sums[:, levels - pricing.grid.p]
    theta = pricing.shared.theta[levels - pricing.grid.p]
    inner = (theta[:, :3] * sums[..., 1:4]).sum(axis=2) - sums[..., 0] * theta[:, 3]
    return pricing.count_weight * inner


def mixing_costs(
    const int64_t[:, ::1] groups not None,  # IN  (K, width)
    Pricing pricing not None,
    double[::1] cost not None,              # OUT (K,)
):
    """-log(S_k / N) of every cluster, 0 where labels are not priced: the cost of the label of each of its
    rows.
    """
    check(groups.shape[1] == pricing.grid.width, "groups")
    check(cost.shape[0] == groups.shape[0], "cost")
    cdef Py_ssize_t k
    with nogil:
        for k in range(groups.shape[0]):
            cost[k] = mixing_cost(pricing, &groups[k, 0])


def choose_features(
    const double[:, ::1] gain not None,     # IN  (n, D) of n groups, or scores in place of gains
    const int64_t[:, ::1] groups not None,  # IN  (n, width) read by "threshold" alone; may be empty otherwise
    Pricing pricing not None,
    int selection,
    double[::1] work not None,              # WORK (parts_size,)
    uint8_t[:, ::1] mask not None,          # OUT (n, D); GIVEN: IN
    double[::1] cost not None,              # OUT (n,) prices of the selected features and code of the mask,
                                            # less the gains
):
    """Features that each group selects by its gains, and what they cost."""
    check(gain.shape[1] == (pricing.grid.p + pricing.grid.q), "gain")
    check(groups.shape[0] == 0
          or (groups.shape[0] == gain.shape[0] and groups.shape[1] == pricing.grid.width), "groups")
    check(mask.shape[0] == gain.shape[0] and mask.shape[1] == (pricing.grid.p + pricing.grid.q), "mask")
    check(cost.shape[0] == gain.shape[0], "cost")
    check(work.shape[0] >= parts_length(pricing), "work")
    check_selection(pricing, selection)
    cdef Py_ssize_t i
    cdef parts_t parts = parts_in(pricing, &work[0])
    if selection == THRESHOLD and groups.shape[0] < gain.shape[0]:
        raise ValueError("The selection 'threshold' needs the moments of every group.")
    with nogil:
        for i in range(gain.shape[0]):
            memcpy(parts.gain, &gain[i, 0], pricing.D * sizeof(double))
            cost[i] = _choose(pricing, selection, &groups[i, 0] if selection == THRESHOLD else NULL, parts,
                              &mask[i, 0])


def best_features(
    const double[:, ::1] gain not None,     # IN  (n, D)
    Pricing pricing not None,
    Py_ssize_t count,
    double[::1] work not None,              # WORK (parts_size,)
    uint8_t[:, ::1] mask not None,          # OUT (n, D)
):
    """The `count` features of the largest net gains, of both kinds together; ties go to the lower feature."""
    check(gain.shape[1] == (pricing.grid.p + pricing.grid.q), "gain")
    check(mask.shape[0] == gain.shape[0] and mask.shape[1] == (pricing.grid.p + pricing.grid.q), "mask")
    check(work.shape[0] >= parts_length(pricing), "work")
    cdef Py_ssize_t i
    cdef parts_t parts = parts_in(pricing, &work[0])
    with nogil:
        for i in range(gain.shape[0]):
            memcpy(parts.gain, &gain[i, 0], pricing.D * sizeof(double))
            memset(&mask[i, 0], 0, pricing.D)
            _top(pricing, parts, 0, pricing.D, count, &mask[i, 0])


def price_groups(
    const int64_t[:, ::1] groups not None,  # IN    (K, width), none empty
    Pricing pricing not None,
    int selection,
    double[:, ::1] work not None,           # WORK  (K, parts_size); shift, precision, gain stay there
    uint8_t[:, ::1] mask not None,          # OUT   (K, D); GIVEN: IN
    double[::1] cost not None,              # OUT   (K,)
):
    """Cost and mask of every cluster."""
    check(groups.shape[1] == pricing.grid.width, "groups")
    check(work.shape[0] >= groups.shape[0] and work.shape[1] >= parts_length(pricing), "work")
    check_selection(pricing, selection)
    check(mask.shape[0] == groups.shape[0] and mask.shape[1] == (pricing.grid.p + pricing.grid.q), "mask")
    check(cost.shape[0] == groups.shape[0], "cost")
    with nogil:
        price_all(pricing, selection, groups, groups.shape[0], work, mask, cost, False)


cdef void price_all(
    Pricing P, int selection, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost, bint alone,
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(K):
        cost[k] = price_of(P, selection, &groups[k, 0], parts_in(P, &work[k, 0]), &mask[k, 0], alone)
