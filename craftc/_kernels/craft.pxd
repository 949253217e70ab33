"""The pass of CRAFT over a block of rows, for kernels that make many passes. The tables are described in src/_craft.h."""

from cython cimport floating
from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from craftc._kernels._common cimport code_t
from craftc._kernels.moments cimport CRAFTC_NUMERIC_CELLS, Grid, add_row

cdef extern from "_craft.h" nogil:
    int CRAFT_PAD
    int CRAFT_FEW
    double CRAFT_FAR
    ctypedef struct craft_tables:
        Py_ssize_t n_clusters, lanes, n_numeric, n_categorical, p, q, repeat
        const Py_ssize_t *numeric
        const Py_ssize_t *categorical
        const double *centre
        const double *scale
        const double *base
        const double *constant
        const double *square
        const double *linear
        const double *offset
        const double *level
        const int32_t *level_offset
    Py_ssize_t craft_scratch_size(Py_ssize_t p, Py_ssize_t q, Py_ssize_t lanes)
    const double *craft_tile(const craft_tables *t, const void *x, int single, const void *codes, int wide, Py_ssize_t first,
                             Py_ssize_t rows, double *scratch, double *best, int32_t *arg)

cdef enum:
    TILE = 8            # CRAFT_TILE


cdef class Tables:
    cdef readonly object base, constant, square, linear, offset, level, numeric, categorical, centre, scale, level_offset
    cdef readonly Grid grid
    cdef craft_tables c


cdef inline double numeric_gain(double S, double spread, double shift, double prior) noexcept nogil:
    """What a Gaussian of its own saves: S present cells, spread = SS / sigma_0^2, shift = (zeta_k - zeta_0) / sigma_0."""
    cdef double gain = 0.5 * (spread + S * shift * shift - S - (S + prior) * log((spread + prior) / (S + prior)))
    return gain if gain > 0 else 0.0


cdef inline double categorical_gain(
    const int64_t *counts, const double *frequency, Py_ssize_t n_levels, double unit, double prior,
) noexcept nogil:
    """(S + alpha) KL(eta_k || eta_0) of one column."""
    cdef Py_ssize_t t
    cdef int64_t seen = 0
    cdef double total, count, gain = 0.0
    for t in range(n_levels):
        seen += counts[t]
    if seen == 0:
        return 0.0
    total = unit * seen + prior
    for t in range(n_levels):
        if frequency[t] > 0:
            count = unit * counts[t] + prior * frequency[t]
            gain += count * log(count / (total * frequency[t]))
    return gain if gain > 0 else 0.0


cdef inline Py_ssize_t levels_of(Grid grid, Py_ssize_t d) noexcept nogil:
    """Levels of categorical column d, without its missing level."""
    return (grid.level_start_[d + 1] if d + 1 < grid.q else grid.n_levels) - grid.level_start_[d] - 1


cdef inline void table_lane(
    Py_ssize_t k, Py_ssize_t lanes, const int64_t *group, Grid grid, double unit, const double *frequency, const double *shift,
    const double *precision, const uint8_t *mask, double extra, double prior, bint background, double *base, double *constant,
    double *square, double *linear, double *offset, double *level,
) noexcept nogil:
    """Cost tables of one cluster, own - background over the value of every selected cell."""
    cdef Py_ssize_t d, t, n_levels, at
    cdef const int64_t *counts
    cdef const double *eta
    cdef int64_t seen
    cdef double half, m
    base[k] = constant[k] = extra
    for d in range(grid.p):
        at = d * lanes + k
        square[at] = linear[at] = offset[at] = 0.0
        if mask[d] and group[grid.first_numeric + CRAFTC_NUMERIC_CELLS * d] > 0:
            half, m = 0.5 * precision[d], shift[d]
            square[at] = half - 0.5 if background else half
            linear[at] = -2.0 * half * m
            offset[at] = half * m * m - (0.5 * log(precision[d]) if background else 0.0)
            constant[k] += offset[at]
    for d in range(grid.q):
        n_levels, counts, eta = levels_of(grid, d), group + 1 + grid.level_start_[d], frequency + grid.level_start_[d]
        at = grid.level_start_[d] * lanes + k
        seen = 0
        for t in range(n_levels + 1):
            level[at + t * lanes] = 0.0
            if t < n_levels:
                seen += counts[t]
        if mask[grid.p + d] and seen > 0:
            for t in range(n_levels):
                if eta[t] > 0:
                    level[at + t * lanes] = -log((unit * counts[t] + prior * eta[t]) / ((unit * seen + prior) * eta[t]))


cdef inline const double *tile_costs(
    const floating[:, ::1] X, const code_t[:, ::1] codes, const int32_t[::1] rows, const craft_tables *t, Py_ssize_t first,
    Py_ssize_t n, double *scratch, double *least, int32_t *arg,
) noexcept nogil:
    """Costs of n <= TILE rows from position `first` on: of the table, or of the listed rows, gathered behind the scratch."""
    cdef Py_ssize_t r
    cdef floating *x
    cdef code_t *code
    if rows.shape[0] == 0:
        return craft_tile(t, &X[0, 0] if t.p else NULL, floating is float, &codes[0, 0] if t.q else NULL, sizeof(code_t) > 1,
                          first, n, scratch, least, arg)
    x = <floating *> (scratch + craft_scratch_size(t.p, t.q, t.lanes))
    code = <code_t *> (scratch + craft_scratch_size(t.p, t.q, t.lanes) + TILE * t.p)
    for r in range(n):
        if t.p:
            memcpy(x + r * t.p, &X[rows[first + r], 0], t.p * sizeof(floating))
        if t.q:
            memcpy(code + r * t.q, &codes[rows[first + r], 0], t.q * sizeof(code_t))
    return craft_tile(t, x, floating is float, code, sizeof(code_t) > 1, 0, n, scratch, least, arg)


cdef inline Py_ssize_t move_row(
    const floating[:, ::1] X, const code_t[:, ::1] codes, const int64_t[::1] weight, Grid grid, Py_ssize_t row, int32_t *label,
    int32_t new, bint moving, int64_t[:, ::1] groups,
) noexcept nogil:
    """The row goes to cluster `new`, its cells with it; returns whether it carries weight."""
    cdef int64_t w = weight[row] if weight.shape[0] > 0 else 1
    cdef const void *x = &X[row, 0] if grid.p else NULL
    cdef const code_t *code = &codes[row, 0] if grid.q else NULL
    cdef int32_t old = label[0]
    label[0] = new
    if w == 0:
        return 0
    if moving:
        if old >= 0:
            add_row(&groups[old, 0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric, grid.p, grid.q,
                    x, floating is float, code, -w)
        add_row(&groups[new, 0], grid.centre_, grid.scale_, grid.level_start_, grid.first_numeric, grid.p, grid.q,
                x, floating is float, code, w)
    return 1


cdef inline Py_ssize_t assign_block(
    const floating[:, ::1] X, const code_t[:, ::1] codes, const int64_t[::1] weight, const int32_t[::1] rows,
    const craft_tables *t, Grid grid, int32_t[::1] labels, double[::1] best, Py_ssize_t start, Py_ssize_t stop, double *scratch,
    bint moving, int64_t[:, ::1] groups,
) noexcept nogil:
    """Rows at positions start..stop-1 to their cheapest clusters; a row moves only if it gains more than 1e-12 nats."""
    cdef Py_ssize_t tile, first, n, r, i, moved = 0
    cdef double[TILE] least
    cdef int32_t[TILE] arg
    cdef const double *cost
    cdef int32_t old, new
    cdef double c
    for tile in range((stop - start + TILE - 1) // TILE):
        first = start + tile * TILE
        n = min(TILE, stop - first)
        cost = tile_costs(X, codes, rows, t, first, n, scratch, least, arg)
        for r in range(n):
            i, old, new, c = first + r, labels[first + r], arg[r], least[r]
            if old >= 0 and cost[r * t.lanes + old] <= c + 1e-12:
                new, c = old, cost[r * t.lanes + old]
            elif new < 0:       # no cluster has a finite cost
                new = max(old, 0)
            if best.shape[0] > 0:
                best[i] = c
            if new != old:
                moved += move_row(X, codes, weight, grid, rows[i] if rows.shape[0] else i, &labels[i], new, moving, groups)
    return moved
