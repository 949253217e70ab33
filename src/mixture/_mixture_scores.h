/* The mixture with feature selection: the present q as lists of selected columns, and bounds that leave
 * components out of a tile of rows. */
#ifndef CRAFTC_MIXTURE_SCORES_H
#define CRAFTC_MIXTURE_SCORES_H

#include <stddef.h>
#include <stdint.h>
#include "mixture/_mixture_constants.h"

#define MX_TILE 32              /* rows of a tile */
#define MX_COLUMNS 64           /* columns of a run: a tile of this size stays in the L1 cache */
#define MX_PAD 8                /* cells of a row are padded to whole vectors */

/* The score of a row under every component, from the selected columns only: E ln pi + sum over them of p (E
 * ln own - E ln noise). */
typedef struct {
    ptrdiff_t K;                /* components that are not empty */
    int32_t *component;         /* (K) their indices */
    ptrdiff_t *stop;            /* (runs, K) end of the selected columns of a run and component in the next
                                   three; from k D + first column */
    uint32_t *place;            /* (K, D) offset of the column in a tile of its run */
    double *linear, *square;
    double *constant, *reach;   /* (K) once per row, once per unit of exposure */
    double *missing;            /* (D, K) subtracted for a missing cell, per unit of exposure */
} mx_lists;

/* Bounds of a sequence of passes. A component whose score is more than MX_CERTAIN below the best one for
 * every row of a tile has no probability there and is left out. How far it is below is computed where it
 * takes part. If coefficients change by l and q, the score of a row changes by l z + q z^2. With the mean u
 * of the tile, the deviation d = z - u and the mean v of d^2, that is
 *
 *     l u + q (u^2 + v)  +  (l + 2 q u) d  +  q (d^2 - v),
 *
 * whose last two terms are at most the products of the norms (Cauchy-Schwarz). The bound by l z and q z^2 is
 * tried first. The bounds stay exact. A component keeps its place here, its slot, when the
 * components are sorted. */
typedef struct {
    ptrdiff_t K;                /* slots */
    int32_t *slot;              /* (K of the lists) */
    float *behind;              /* (tiles, K) by slot: the least that it can be below the best score, for all
                                   rows of the tile */
    double *middle;             /* (tiles, 2 stride) u and v */
    double *norm;               /* (tiles, 4) the largest |z|, |z^2|, |d| and |d^2 - v| of its rows; negative:
                                   not yet computed */
    double *constant;           /* (K of the lists) change since the last pass; NaN: not in the last pass */
    double *moved;              /* (K of the lists, 2 stride) l and q */
    double *linear, *square;    /* (K of the lists) their norms */
    double rounding[3];         /* a score of a row is exact to rounding[0] + |z| rounding[1] + |z^2|
                                   rounding[2], in both passes */
    ptrdiff_t n_gone;
    int32_t *gone;              /* (n_gone) slots of the last pass whose components have no rows any more */
} mx_bounds;

static inline ptrdiff_t mx_stride(ptrdiff_t D)
{
    return (D + MX_PAD - 1) / MX_PAD * MX_PAD;
}

static inline ptrdiff_t mx_runs(ptrdiff_t D)
{
    return (D + MX_COLUMNS - 1) / MX_COLUMNS;
}

#endif
