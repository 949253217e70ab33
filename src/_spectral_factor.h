/* Rows of a nonnegative factorisation of a mixed table: one sweep of hierarchical alternating least squares (HALS). */
#ifndef CRAFTC_SPECTRAL_FACTOR_H
#define CRAFTC_SPECTRAL_FACTOR_H

#include "_mixed_rows.h"
#include "_simd.h"

#define NF_SCRATCH 17                   /* numbers for every factor: a row's, and two of as many rows as a vector has lanes */

typedef struct {
    mixed_rows rows;
    ptrdiff_t k;                        /* factors */
    const double *low, *scale, *fill;   /* (p1) numbers are factorised as (x - low) * scale, missing ones as fill */
} nf_table;

static inline double nf_number(const nf_table *t, ptrdiff_t i, ptrdiff_t s)
{
    const double x = mixed_number(&t->rows, i, s);
    return x == x ? (x - t->low[s]) * t->scale[s] : t->fill[s];
}

#define LEAVES "_spectral_factor_rows.h"
#include "_lanes.h"

/* rows [start, stop): new scores, and the sums for the update of the loadings; scratch (NF_SCRATCH, k) */
static inline void nf_rows(const nf_table *t, const double *loading, const double *state_loading, const double *gram, ptrdiff_t start,
                           ptrdiff_t stop, double *scores, double *square, double *by_column, double *by_state, double *scratch)
{
    SIMD_DISPATCH(nf_rows, (t, loading, state_loading, gram, start, stop, scores, square, by_column, by_state, scratch));
}

#endif
