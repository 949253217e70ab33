/* Sums of the numeric cells of a group of rows of weight 1, in words of 64 bits that stay in registers; the
 * rows are too few for an overflow.
 *
 * u = q + 2^51 = 2^26 high + low with 26 bits each: sum u^2 = 2^52 sum high^2 + 2^27 sum high low + sum
 * low^2. Cells that are missing, or not within |q| < 2^51, leave their group to the additions of single
 * cells. */
#ifndef CRAFTC_MOMENTS_SUMS_H
#define CRAFTC_MOMENTS_SUMS_H

#include "table/_moments.h"
#include "common/_simd.h"

#define MOMENTS_RUN 1984        /* rows at once, at most: 1984 2^52 < 2^63 */
#define MOMENTS_WIDE_RUN 1024   /* of wide rows */
#define MOMENTS_WIDE 256        /* bytes of a row above which it is wide */
#define MOMENTS_GROUPS 128      /* for more groups, the few rows of a run in each cost less one by one */
#define MOMENTS_CELLS 8192      /* of a piece of such a run, which the first-level cache holds */
#define MOMENTS_PIECE 64        /* rows of a piece, at least */
/* bytes of a row up to which the second-level cache holds the next run, too, which is fetched meanwhile */
#define MOMENTS_AHEAD 1024

/* sums of n rows of one group in one column, of the words that hold u, modulo 2^64, and of the products */
typedef struct {
    uint64_t sum, high_high, high_low, low_low;
} moments_sums;

/* these are added to the integers of the column */
static inline void moments_add_sums(int64_t *cell, moments_sums s, int64_t n)
{
    const int64_t bias = (int64_t)1 << 51, sum = (int64_t)(s.sum - (uint64_t)n * SIMD_MAGIC_BITS);
    /* sum q^2 = sum u^2 - 2^52 sum q - n 2^102, where sum u = sum q + n 2^51 */
    craftc_int128 square
        = int128_add(int128_product((int64_t)s.high_high, 2 * bias), int128_of((int64_t)s.low_low));
    square = int128_add(square, int128_product((int64_t)s.high_low, (int64_t)1 << 27));
    square = int128_add(square, int128_product(sum + n * (bias / 2), -2 * bias));
    cell[0] += n;
    int128_store(cell + 1, int128_add(int128_load(cell + 1), int128_of(sum)));
    int128_store(cell + 3, int128_add(int128_load(cell + 3), square));
}

/* Rows of a run: the more, the fewer additions of sums, as long as the second-level cache holds the run. */
static inline ptrdiff_t moments_run(const table_rows *t)
{
    return t->p * (ptrdiff_t)(t->single ? sizeof(float) : sizeof(double)) > MOMENTS_WIDE ? MOMENTS_WIDE_RUN
        : MOMENTS_RUN;
}

#define LEAVES "table/_moments_sums_lanes.h"
#include "common/_lanes.h"

/* rows start + list[i] of a table without weights, n <= MOMENTS_RUN, are added to their group */
static inline void moments_add_rows(int64_t *group, const double *centre, const double *scale,
                                    const ptrdiff_t *level_start, ptrdiff_t first_numeric,
                                    const table_rows *t, ptrdiff_t start, const int32_t *list, ptrdiff_t n)
{
    group[0] += n;
    for (ptrdiff_t i = 0; t->q && i < n; i++)
        moments_add_row_codes(group, level_start, t, start + list[i], 1);
    if (!t->p)
        return;
#if CRAFTC_CLONES
    if (simd_has_ifma()) {
        if (t->single)
            moments_sum_ifma_float_v4(group + first_numeric, centre, scale, t, start, list, n);
        else
            moments_sum_ifma_double_v4(group + first_numeric, centre, scale, t, start, list, n);
        return;
    }
#endif
    if (t->single)
        SIMD_DISPATCH(moments_sum_float, (group + first_numeric, centre, scale, t, start, list, n));
    else
        SIMD_DISPATCH(moments_sum_double, (group + first_numeric, centre, scale, t, start, list, n));
}

#endif
