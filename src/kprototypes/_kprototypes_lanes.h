/* One clone of the leaves of _kprototypes.h, included once per instruction set by _lanes.h. */

/* rows whose sums fit the register file */
#define ROWS_AT_ONCE (W == 8 ? 8 : 4)

/* whether one of n cells is missing */
TARGET static int THIS(kp_lacks)(const double *restrict x, ptrdiff_t n)
{
    int missing = 0;
    ptrdiff_t j = 0;
#if defined(__GNUC__)
    BITS lacking = {0};
    for (; j + W <= n; j += W)
        lacking |= *(const LANE *)(x + j) != *(const LANE *)(x + j);
    for (int v = 0; v < W; v++)
        missing |= lacking[v] != 0;
#endif
    for (; j < n; j++)
        missing |= x[j] != x[j];
    return missing;
}

/* Positions in the level table, relative to the first entry of the column in a sum; `size`: of the set of
 * each row. One loop over all cells of a tile fills the vectors even if columns are few. */
#define FILL_ENTRIES(type)                                                                                   \
TARGET static void THIS(kp_fill_##type)(const kp_tables *t, const type *restrict codes, ptrdiff_t rows,      \
                                        ptrdiff_t *restrict entry, double *restrict size)                    \
{                                                                                                            \
    const ptrdiff_t q = t->q, lanes = t->lanes;                                                              \
    if (!KP_SETS(t)) {                                                                                       \
        for (ptrdiff_t j = 0; j < rows * q; j++)                                                             \
            entry[j] = (ptrdiff_t)codes[j] * lanes;                                                          \
        return;                                                                                              \
    }                                                                                                        \
    for (ptrdiff_t r = 0; r < rows; r++) {                                                                   \
        ptrdiff_t *own = entry + r * q;                                                                      \
        size[r] = 0.0;                                                                                       \
        for (ptrdiff_t d = 0; d < q; d++)                                                                    \
            own[d] = (ptrdiff_t)codes[r * q + d];                                                            \
        for (ptrdiff_t d = q - 1; d >= 0; d--)      /* the last first: an entry needs the codes before it */ \
            own[d] = kp_entry(t, own, d, size + r) * lanes;                                                  \
    }                                                                                                        \
}
FILL_ENTRIES(uint8_t)
FILL_ENTRIES(uint16_t)

/* The number of present cells of every row that differ from the mode: codes below n_levels are present. Up to
 * 128 columns are counted in the type of the codes, which fills the vectors. */
#define MISMATCHES(type)                                                                                   \
TARGET static void THIS(kp_mismatches_##type)(const type *restrict codes, ptrdiff_t n, ptrdiff_t q,        \
                                              const type *restrict mode, const type *restrict n_levels,    \
                                                  int32_t *restrict out)                                   \
{                                                                                                          \
    for (ptrdiff_t i = 0; i < n; i++, codes += q) {                                                        \
        out[i] = 0;                                                                                        \
        for (ptrdiff_t from = 0; from < q; from += 128) {                                                  \
            const ptrdiff_t stop = from + 128 < q ? from + 128 : q;                                        \
            type count = 0;                                                                                \
            for (ptrdiff_t d = from; d < stop; d++)                                                        \
                count = (type)(count + ((codes[d] != mode[d]) & (codes[d] < n_levels[d])));                \
            out[i] += count;                                                                               \
        }                                                                                                  \
    }                                                                                                      \
}
MISMATCHES(uint8_t)
MISMATCHES(uint16_t)

/* ROWS rows from `r0` on, VECTORS vectors of lanes from lane `k` on; SQUARE(d): the square of a difference, 0
 * where the cell is missing. The sums of the numbers are stored before those of the categories begin: either
 * fit the register file. */
#define ACCUMULATE(ROWS, VECTORS, SQUARE)                                                              \
    {                                                                                                  \
        LANE sum[ROWS][VECTORS];                                                                       \
        KP_UNROLL for (int r = 0; r < ROWS; r++)                                                       \
            KP_UNROLL for (int v = 0; v < VECTORS; v++)                                                \
                sum[r][v] = *(const LANE *)(t->base + k + v * W);                                      \
        for (ptrdiff_t d = 0; d < p; d++) {                                                            \
            const double *own = cells + r0 * p + d;                                                    \
            KP_UNROLL for (int v = 0; v < VECTORS; v++) {                                              \
                LANE mean = *(const LANE *)(t->mean + d * lanes + k + v * W);                          \
                KP_UNROLL for (int r = 0; r < ROWS; r++) {                                             \
                    LANE step = mean - own[r * p];                                                     \
                    sum[r][v] += SQUARE(step * step);                                                  \
                }                                                                                      \
            }                                                                                          \
        }                                                                                              \
        KP_UNROLL for (int r = 0; r < ROWS; r++)                                                       \
            KP_UNROLL for (int v = 0; v < VECTORS; v++) {                                              \
                *(LANE *)(cost + (r0 + r) * lanes + k + v * W) = sum[r][v];                            \
                sum[r][v] = ALL(LANE, 0.0);                                                            \
            }                                                                                          \
        for (ptrdiff_t d = 0; d < q; d++) {                                                            \
            const double *table = t->level + (sets ? 0 : t->level_start[d] * lanes) + k;               \
            const ptrdiff_t *own = entry + r0 * q + d;                                                 \
            KP_UNROLL for (int r = 0; r < ROWS; r++)                                                   \
                KP_UNROLL for (int v = 0; v < VECTORS; v++)                                            \
                    sum[r][v] += *(const LANE *)(table + own[r * q] + v * W);                          \
        }                                                                                              \
        KP_UNROLL for (int r = 0; r < ROWS; r++)                                                       \
            KP_UNROLL for (int v = 0; v < VECTORS; v++) {                                              \
                if (sets) {                                                                            \
                    LANE either = *(const LANE *)(t->size + k + v * W) + size[r0 + r] - sum[r][v];     \
                    sum[r][v] = PICK(either > ALL(LANE, 0.0), ALL(LANE, 1.0) - sum[r][v] / either);    \
                }                                                                                      \
                *(LANE *)(cost + (r0 + r) * lanes + k + v * W) += t->gamma * sum[r][v];                \
            }                                                                                          \
    }
#define PLAIN(square) (square)
#define PRESENT(square) PICK((square) == (square), square)
#define TILE_OF(ROWS, SQUARE)                                                           \
    {                                                                                   \
        ptrdiff_t k = 0;                                                                \
        for (; k + 2 * W <= lanes; k += 2 * W)                                          \
            ACCUMULATE(ROWS, 2, SQUARE)                                                 \
        for (; k < lanes; k += W)                                                       \
            ACCUMULATE(ROWS, 1, SQUARE)                                                 \
    }

TARGET static void THIS(kp_costs)(const kp_tables *t, const void *x, int single, const void *codes, int wide,
                                  ptrdiff_t first, ptrdiff_t rows, double *restrict widened,
                                  ptrdiff_t *restrict entry, double *restrict cost, double *restrict size)
{
    const ptrdiff_t lanes = t->lanes, p = t->p, q = t->q;
    const int sets = KP_SETS(t);
    const double *cells = (const double *)x + first * p;
    ptrdiff_t r0 = 0;
    KP_PREFETCH(x, first * p, rows * p, single ? 4 : 8)
    KP_PREFETCH(codes, first * q, rows * q, wide ? 2 : 1)
    if (p && single) {
        const float *narrow = (const float *)x + first * p;
        for (ptrdiff_t j = 0; j < rows * p; j++)
            widened[j] = narrow[j];
        cells = widened;
    }
    if (q && wide)
        THIS(kp_fill_uint16_t)(t, (const uint16_t *)codes + first * q, rows, entry, size);
    else if (q)
        THIS(kp_fill_uint8_t)(t, (const uint8_t *)codes + first * q, rows, entry, size);
    else
        for (ptrdiff_t r = 0; r < rows; r++)
            size[r] = 0.0;
    if (p && THIS(kp_lacks)(cells, rows * p)) {
        for (; r0 < rows; r0++)
            TILE_OF(1, PRESENT)
        return;
    }
    for (; r0 + ROWS_AT_ONCE <= rows; r0 += ROWS_AT_ONCE)
        TILE_OF(ROWS_AT_ONCE, PLAIN)
    for (; r0 < rows; r0++)
        TILE_OF(1, PLAIN)
}

#undef ROWS_AT_ONCE
#undef FILL_ENTRIES
#undef MISMATCHES
#undef ACCUMULATE
#undef PLAIN
#undef PRESENT
#undef TILE_OF
