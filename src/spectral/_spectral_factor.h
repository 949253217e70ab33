/* Nonnegative factorisation of a mixed table: one sweep of hierarchical alternating least squares (HALS). */
#ifndef CRAFTC_SPECTRAL_FACTOR_H
#define CRAFTC_SPECTRAL_FACTOR_H

#include <string.h>
#include "spectral/_mixed_rows.h"
#include "common/_simd.h"

/* factors are padded to a multiple, the most rows that are processed together */
#define NF_LANES 8
#define NF_TILE 24                      /* factors of a row processed together, if there are as many */

typedef struct {
    mixed_rows rows;
    ptrdiff_t k, width;                 /* factors, and padded: rows of loadings and of sums are `width` apart
                                           */
    const double *low, *scale, *fill;   /* (p1) numbers are factorised as (x - low) * scale, missing ones as
                                           fill */
} nf_table;

static inline double nf_number(const nf_table *t, ptrdiff_t i, ptrdiff_t s)
{
    const double x = mixed_number(&t->rows, i, s);
    return x == x ? (x - t->low[s]) * t->scale[s] : t->fill[s];
}

static inline ptrdiff_t nf_padded(ptrdiff_t k)
{
    return (k + NF_LANES - 1) / NF_LANES * NF_LANES;
}

/* doubles of scratch: scores and numbers of the rows processed together, and two numbers of each for every
 * factor */
static inline ptrdiff_t nf_scratch(ptrdiff_t width, ptrdiff_t p1)
{
    return NF_LANES * (3 * width + p1);
}

#define LEAVES "spectral/_spectral_factor_rows.h"
#include "common/_lanes.h"

/* rows [start, stop): new scores, and the sums for the update of the loadings; scratch (nf_scratch), zeros */
static inline void nf_rows(const nf_table *t, const double *loading, const double *state_loading,
                           const double *gram, ptrdiff_t start, ptrdiff_t stop, double *scores,
                           double *square, double *by_column, double *by_state, double *scratch)
{
    SIMD_DISPATCH(nf_rows,
                  (t, loading, state_loading, gram, start, stop, scores, square, by_column, by_state,
                   scratch));
}

/* loadings (p, k) from products (p, k) of the columns with the scores, whose Gram matrix is `gram`; scratch
 * (2, k, NF_LANES) */
static inline void nf_loadings(ptrdiff_t p, ptrdiff_t k, const double *product, const double *gram,
                               double *loadings, double *scratch)
{
    SIMD_DISPATCH(nf_loadings, (p, k, product, gram, loadings, scratch));
}

/* gram (k, width) = products of the factors w (n, width) */
static inline void nf_gram(ptrdiff_t k, ptrdiff_t width, ptrdiff_t n, const double *w, double *gram)
{
    memset(gram, 0, sizeof(double) * k * width);
    SIMD_DISPATCH(nf_gram, (k, width, n, w, gram));
}

#endif
