/* The mixture with feature selection: the present q as lists of selected columns, and bounds that leave components out of a tile of rows. */
#ifndef CRAFTC_MIXTURE_SCORES_H
#define CRAFTC_MIXTURE_SCORES_H

#include <stddef.h>
#include <stdint.h>
#include "_mixture_constants.h"

#define MX_TILE 32              /* rows of a tile */
#define MX_COLUMNS 64           /* columns of a run: a tile of this size stays in the L1 cache */

/* The score of a row under every component, from the selected columns only: E ln pi + sum over them of p (E ln own - E ln noise). */
typedef struct {
    ptrdiff_t K;                /* components that are not empty */
    int32_t *component;         /* (K) their indices */
    ptrdiff_t *stop;            /* (runs, K) end of the selected columns of a run and component in the next three; from k D + first column */
    uint32_t *place;            /* (K, D) offset of the column in a tile of its run */
    double *linear, *square;
    double *constant, *reach;   /* (K) once per row, once per unit of exposure */
    double *missing;            /* (D, K) subtracted for a missing cell, per unit of exposure */
} mx_lists;

/* Bounds of a sequence of passes. A component whose score is more than MX_CERTAIN below the best one for every row of a tile has no
 * probability there and is left out. How far it is below is computed where it takes part. From pass to pass, a score changes by no more
 * than |z| and |z^2| of the row times the norms of the changes of `linear` and `square` (Cauchy-Schwarz): the bounds stay exact.
 * A component keeps its place here, its slot, when the components are sorted. */
typedef struct {
    ptrdiff_t K;                /* slots */
    int32_t *slot;              /* (K of the lists) */
    float *behind;              /* (tiles, K) by slot: the least that it can be below the best score, for all rows of the tile */
    double *norm;               /* (tiles, 2) the largest |z| and |z^2| of its rows; negative: not yet computed */
    double *constant, *linear, *square; /* (K of the lists) change since the last pass; NaN: not in the last pass */
    double rounding[3];         /* a score of a row is exact to rounding[0] + |z| rounding[1] + |z^2| rounding[2], in both passes */
    ptrdiff_t n_gone;
    int32_t *gone;              /* (n_gone) slots of the last pass whose components have no rows any more */
} mx_bounds;

static inline ptrdiff_t mx_runs(ptrdiff_t D)
{
    return (D + MX_COLUMNS - 1) / MX_COLUMNS;
}

#endif
