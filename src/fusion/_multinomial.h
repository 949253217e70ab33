/* Rows of the multinomial loss on a sparse table, whose numbers of the classes are padded to whole vectors of
 * MN_TILE, and softmax of a table of logits. */
#ifndef CRAFTC_MULTINOMIAL_H
#define CRAFTC_MULTINOMIAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_simd.h"

#define MN_TILE 8
#define MN_TOGETHER 3 /* tiles that stay in registers */

typedef struct {
    ptrdiff_t c, w;             /* classes; the same, rounded up to a multiple of MN_TILE */
    const ptrdiff_t *first;     /* (n + 1) bounds of the entries of every row */
    const int32_t *column;      /* (entries) */
    const double *x;            /* (entries) */
    const double *beta;         /* (m, w) coefficients, or a direction; padding 0 */
    const int32_t *y;           /* (n) */
    double *proba;              /* (n, c) */
} mn_rows;

typedef struct {
    ptrdiff_t n, c;             /* rows, classes */
    double *z;                  /* (c, n) logits; out: probabilities */
    const int32_t *y;           /* (n) */
    const double *weight;       /* (n) of the rows; NULL: 1 */
} mn_logits;

#define LEAVES "fusion/_multinomial_rows.h"
#include "common/_lanes.h"

/* Probabilities of rows start..stop - 1; out[0] += -ln p(y), out[1] += their entropy. row: (2, w) work. */
static inline void mn_evaluate(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row, double *out)
{
    SIMD_DISPATCH(mn_evaluate, (t, start, stop, row, out));
}

/* sums (m, w) += X' (P - Y) over the rows */
static inline void mn_gradient(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row, double *sums)
{
    SIMD_DISPATCH(mn_gradient, (t, start, stop, row, sums));
}

/* sums (m, w) += the product of the Hessian and beta, over the rows */
static inline void mn_hessian(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row, double *sums)
{
    SIMD_DISPATCH(mn_hessian, (t, start, stop, row, sums));
}

/* sums (m, w) += x' (P (1 - P)) over the rows */
static inline void mn_variances(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row, double *sums)
{
    SIMD_DISPATCH(mn_variances, (t, start, stop, row, sums));
}

/* Probabilities from logits; out[0] = -sum ln p(y), out[1] = the sum of their entropies, times the weights.
 * tile: (c, MN_TILE) work */
static inline void mn_softmax(const mn_logits *t, double *tile, double *out)
{
    SIMD_DISPATCH(mn_softmax, (t, tile, out));
}

#endif
