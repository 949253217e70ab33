/* Exact moments of a group of rows of a mixed table.
 *
 * A group is an array of 64-bit integers:
 *     [ weight | counts of every level of every categorical column, followed by its missing level |
 *       per numeric column: weight of the observed values, sum q (2 words), sum q^2 (2 words) ]
 * q is the value on the integer grid of its column, q = rint((x - centre) * scale), |q| <= 2^39. Integer sums
 * do not depend on the order of the additions: adding and removing rows in any order, by any thread, gives
 * the same bits. */
#ifndef CRAFTC_MOMENTS_H
#define CRAFTC_MOMENTS_H

#include <math.h>
#include <stddef.h>
#include "common/_int128.h"
#include "table/_table_rows.h"

#define CRAFTC_NUMERIC_CELLS 5

static inline void moments_add_cell(int64_t *cell, double offset_scaled, int64_t weight)
{
    int64_t q = (int64_t)llrint(offset_scaled);
    craftc_int128 wq = int128_product(q, weight);
    cell[0] += weight;
    int128_store(cell + 1, int128_add(int128_load(cell + 1), wq));
    int128_store(cell + 3, int128_add(int128_load(cell + 3), int128_scale(wq, q)));
}

static inline void moments_add_codes(int64_t *counts, const ptrdiff_t *level_start, const void *codes,
                                     int wide, ptrdiff_t q, int64_t weight)
{
    for (ptrdiff_t d = 0; d < q; d++)
        counts[level_start[d]
               + (wide ? ((const uint16_t *)codes)[d] : ((const uint8_t *)codes)[d])] += weight;
}

static inline void moments_add_row_codes(int64_t *group, const ptrdiff_t *level_start, const table_rows *t,
                                         ptrdiff_t i, int64_t weight)
{
    if (t->wide)
        moments_add_codes(group + 1, level_start, rows_codes(t, i), 1, t->q, weight);
    else
        moments_add_codes(group + 1, level_start, rows_codes(t, i), 0, t->q, weight);
}

static inline void moments_add_numbers(int64_t *cells, const double *centre, const double *scale,
                                       const void *x, int single, ptrdiff_t p, int64_t weight)
{
    for (ptrdiff_t d = 0; d < p; d++, cells += CRAFTC_NUMERIC_CELLS) {
        const double cell = single ? (double)((const float *)x)[d] : ((const double *)x)[d];
        if (cell == cell)
            moments_add_cell(cells, (cell - centre[d]) * scale[d], weight);
    }
}

/* add row i (weight < 0: take it out) to a group; the type of the cells is a constant of every loop */
static inline void moments_add_row(int64_t *group, const double *centre, const double *scale,
                                   const ptrdiff_t *level_start, ptrdiff_t first_numeric, const table_rows *t,
                                   ptrdiff_t i, int64_t weight)
{
    group[0] += weight;
    moments_add_row_codes(group, level_start, t, i, weight);
    if (t->single)
        moments_add_numbers(group + first_numeric, centre, scale, rows_numeric(t, i), 1, t->p, weight);
    else
        moments_add_numbers(group + first_numeric, centre, scale, rows_numeric(t, i), 0, t->p, weight);
}

/* smallest and largest observed numbers of the columns so far; returns whether one is missing */
static inline int moments_ranges(const void *x, int single, ptrdiff_t p, double *restrict low,
                                 double *restrict high)
{
    int missing = 0;
    for (ptrdiff_t d = 0; d < p; d++) {
        const double cell = single ? (double)((const float *)x)[d] : ((const double *)x)[d];
        low[d] = cell < low[d] ? cell : low[d];
        high[d] = cell > high[d] ? cell : high[d];
        missing |= cell != cell;
    }
    return missing;
}

/* to += sign * from, two groups of `width` integers; the numeric columns start at `first_numeric` */
static inline void moments_merge(int64_t *to, const int64_t *from, int64_t sign, ptrdiff_t first_numeric,
                                 ptrdiff_t width)
{
    ptrdiff_t i;
    for (i = 0; i < first_numeric; i++)
        to[i] += sign * from[i];
    for (; i < width; i += CRAFTC_NUMERIC_CELLS) {
        to[i] += sign * from[i];
        int128_store(to + i + 1,
                     int128_add(int128_load(to + i + 1), int128_scale(int128_load(from + i + 1), sign)));
        int128_store(to + i + 3,
                     int128_add(int128_load(to + i + 3), int128_scale(int128_load(from + i + 3), sign)));
    }
}

/* mean and sum of squared deviations in grid units; cell[0] > 0.
 * With the rounded mean m and r = sum q - m S (exact), SS = sum (q - m)^2 - r^2 / S, so cancellation occurs
 * in exact integers only. */
static inline double moments_mean(const int64_t *cell, double *deviations)
{
    craftc_int128 sum = int128_load(cell + 1), rest, square;
    int64_t weight = cell[0], m = (int64_t)llrint(int128_double(sum) / (double)weight);
    double r;
    rest = int128_add(sum, int128_scale(int128_of(weight), -m));
    square = int128_add(int128_load(cell + 3), int128_scale(int128_add(sum, rest), -m));
    r = int128_double(rest);
    *deviations = int128_double(square) - r * r / (double)weight;
    if (*deviations < 0.0)
        *deviations = 0.0;
    return (double)m + r / (double)weight;
}

#endif
