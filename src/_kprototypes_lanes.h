/* One clone of the leaves of _kprototypes.h, included once per instruction set by _lanes.h. */

#include "_cheapest_lanes.h"

/* cells as float64; returns whether one is missing */
#define FILL_NUMBERS(type)                                                                                  \
TARGET static int THIS(kp_fill_##type)(const type *restrict x, ptrdiff_t n, double *restrict cells)         \
{                                                                                                           \
    int missing = 0;                                                                                        \
    for (ptrdiff_t j = 0; j < n; j++) {                                                                     \
        cells[j] = x[j];                                                                                    \
        missing |= x[j] != x[j];                                                                            \
    }                                                                                                       \
    return missing;                                                                                         \
}
FILL_NUMBERS(float)
FILL_NUMBERS(double)

/* positions in the level table; `size`: of the set of each row */
#define FILL_ENTRIES(type)                                                                                  \
TARGET static void THIS(kp_fill_##type)(const kp_tables *t, const type *restrict codes, ptrdiff_t rows,     \
                                        ptrdiff_t *restrict entry, double *restrict size)                   \
{                                                                                                           \
    const ptrdiff_t q = t->q, lanes = t->lanes, *restrict start = t->level_start;                           \
    if (t->kind == KP_MATCHING || t->kind == KP_NG) {                                                       \
        for (ptrdiff_t r = 0; r < rows; r++)                                                                \
            for (ptrdiff_t d = 0; d < q; d++)                                                               \
                entry[r * q + d] = (start[d] + (ptrdiff_t)codes[r * q + d]) * lanes;                        \
        return;                                                                                             \
    }                                                                                                       \
    for (ptrdiff_t r = 0; r < rows; r++) {                                                                  \
        ptrdiff_t *own = entry + r * q;                                                                     \
        size[r] = 0.0;                                                                                      \
        for (ptrdiff_t d = 0; d < q; d++)                                                                   \
            own[d] = (ptrdiff_t)codes[r * q + d];                                                           \
        for (ptrdiff_t d = q - 1; d >= 0; d--)      /* the last first: an entry needs the codes before it */    \
            own[d] = kp_entry(t, own, d, size + r) * lanes;                                                 \
    }                                                                                                       \
}
FILL_ENTRIES(uint8_t)
FILL_ENTRIES(uint16_t)

/* ROWS rows from `r0` on, VECTORS vectors of lanes from lane `k` on; SQUARE(d): the square of a difference, 0 where the cell is missing */
#define ACCUMULATE(ROWS, VECTORS, SQUARE)                                               \
    {                                                                                   \
        LANE sum[ROWS][VECTORS], other[ROWS][VECTORS];                                  \
        for (int r = 0; r < ROWS; r++)                                                  \
            for (int v = 0; v < VECTORS; v++) {                                         \
                sum[r][v] = *(const LANE *)(t->base + k + v * W);                       \
                other[r][v] = ALL(LANE, 0.0);                                           \
            }                                                                           \
        for (ptrdiff_t d = 0; d < p; d++)                                               \
            for (int v = 0; v < VECTORS; v++) {                                         \
                LANE mean = *(const LANE *)(t->mean + d * lanes + k + v * W);           \
                for (int r = 0; r < ROWS; r++) {                                        \
                    LANE step = mean - cells[(r0 + r) * p + d];                         \
                    sum[r][v] += SQUARE(step * step);                                   \
                }                                                                       \
            }                                                                           \
        for (ptrdiff_t d = 0; d < q; d++)                                               \
            for (int r = 0; r < ROWS; r++) {                                            \
                const double *from = t->level + entry[(r0 + r) * q + d] + k;            \
                for (int v = 0; v < VECTORS; v++)                                       \
                    other[r][v] += *(const LANE *)(from + v * W);                       \
            }                                                                           \
        for (int r = 0; r < ROWS; r++)                                                  \
            for (int v = 0; v < VECTORS; v++) {                                         \
                if (sets) {                                                             \
                    LANE both = *(const LANE *)(t->size + k + v * W) + size[r0 + r] - other[r][v];                  \
                    other[r][v] = PICK(both > ALL(LANE, 0.0), ALL(LANE, 1.0) - other[r][v] / both);                 \
                }                                                                       \
                *(LANE *)(cost + (r0 + r) * lanes + k + v * W) = sum[r][v] + t->gamma * other[r][v];                \
            }                                                                           \
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

TARGET static void THIS(kp_costs)(const kp_tables *t, const void *x, int single, const void *codes, int wide, ptrdiff_t first,
                                  ptrdiff_t rows, double *restrict cells, ptrdiff_t *restrict entry, double *restrict cost,
                                  double *restrict size)
{
    const ptrdiff_t lanes = t->lanes, p = t->p, q = t->q;
    const int sets = t->kind == KP_BINARY || t->kind == KP_LABELS;
    int missing = 0;
    ptrdiff_t r0 = 0;
    if (p && single)
        missing = THIS(kp_fill_float)((const float *)x + first * p, rows * p, cells);
    else if (p)
        missing = THIS(kp_fill_double)((const double *)x + first * p, rows * p, cells);
    if (q && wide)
        THIS(kp_fill_uint16_t)(t, (const uint16_t *)codes + first * q, rows, entry, size);
    else if (q)
        THIS(kp_fill_uint8_t)(t, (const uint8_t *)codes + first * q, rows, entry, size);
    else
        for (ptrdiff_t r = 0; r < rows; r++)
            size[r] = 0.0;
    if (missing) {
        for (; r0 < rows; r0++)
            TILE_OF(1, PRESENT)
        return;
    }
    for (; r0 + 4 <= rows; r0 += 4)
        TILE_OF(4, PLAIN)
    for (; r0 < rows; r0++)
        TILE_OF(1, PLAIN)
}

#undef FILL_NUMBERS
#undef FILL_ENTRIES
#undef ACCUMULATE
#undef PLAIN
#undef PRESENT
#undef TILE_OF
