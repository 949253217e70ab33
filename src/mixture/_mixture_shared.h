/* Updates of the factors that all components of the mixture with feature selection share, over the columns:
 * Gaussian noise and q(lambda). The lanes are columns, MU_TILE of them a tile. */
#ifndef CRAFTC_MIXTURE_SHARED_H
#define CRAFTC_MIXTURE_SHARED_H

#include "mixture/_mixture_updates.h"

/* the cells that no component selects */
typedef struct {
    ptrdiff_t K, D;
    const double *p, *reach, *s1, *s2;  /* (K, D) probabilities of selection, and sums of the components */
    double *rest[3];                    /* (D) OUT reach, sums and squares of these cells */
    double k0, a0;                      /* prior */
    const double *b0, *value;           /* (D) the prior's scale, and its normalisation */
    int common;                         /* one precision of all columns, its posterior in the next three; else
                                           each has its own */
    double digamma_a, log_b, tau;
    double *constant, *linear, *square; /* (D) OUT expected log density */
} mu_noise;

/* Beta variables: the probabilities that columns are selected */
typedef struct {
    ptrdiff_t K, D;                     /* components whose masks they govern, columns */
    const double *p;                    /* (K, D) probabilities of selection */
    double prior_a, prior_b;
    double digamma_both, log_gamma_both;        /* of a + b, the same for all */
    double *a, *b, *log_mean, *log_rest, *value;        /* (D) the posterior: shapes, E ln x, E ln(1 - x), ln
                                                           B(a, b) */
} mu_shares;

#define LEAVES "mixture/_mixture_shared_lanes.h"
#include "common/_lanes.h"

/* reach, sums and squares of the noise */
static inline void mu_pool(const mu_noise *c)
{
    SIMD_DISPATCH(mu_pool, (c));
}

/* Gaussian noise from its sums; returns the expected log likelihood of its cells minus their log evidence,
 * without that of a common precision */
static inline double mu_fit_noise(const mu_noise *c)
{
    return SIMD_DISPATCH(mu_fit_noise, (c));
}

/* q(lambda) */
static inline void mu_fit_shares(const mu_shares *c)
{
    SIMD_DISPATCH(mu_fit_shares, (c));
}

/* their part of the ELBO, without the prior's own ln B */
static inline double mu_shares_elbo(const mu_shares *c)
{
    return SIMD_DISPATCH(mu_shares_elbo, (c));
}

#endif
