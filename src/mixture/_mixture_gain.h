/* The gain over the noise of a group of rows, with Gaussian columns and masks of every component: the sum
 * over columns that a search for merges evaluates for every pair. */
#ifndef CRAFTC_MIXTURE_GAIN_H
#define CRAFTC_MIXTURE_GAIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_simd.h"

#define MG_TILE 8       /* columns that are added up apart */
#define MG_FACTORS 512  /* numbers up to 2 whose product is stored */

typedef struct {
    ptrdiff_t D;                            /* columns, at least MG_TILE */
    const double *b0, *value;               /* prior of their precision, and its normalisation */
    const double *constant, *linear, *square; /* the noise */
    const double *log_mean, *log_rest;      /* of the probability that a component selects the column */
} mg_columns;

/* cells with sums of squares (D) in two parts; the second counts `other` (0 or 1) times */
typedef struct {
    const double *s1, *s2, *more1, *more2;
    double other, reach;                    /* reach: the weight of all rows, the same in every column */
    double kappa, a, evidence;              /* of the posterior; the part of the log evidence that no column
                                               changes */
} mg_cells;

#define LEAVES "mixture/_mixture_gain_lanes.h"
#include "common/_lanes.h"

/* sum over columns of ln(E[lambda] e^gain + 1 - E[lambda]), with the expected logarithms in the place of
 * logarithms */
static inline double mg_gain(const mg_columns *c, const mg_cells *x)
{
    return SIMD_DISPATCH(mg_gain, (c, x));
}

#endif
