/* Updates of one component of the mixture with feature selection, over its columns: q(theta) where all
 * Gaussian columns have the same amount of data, and q(y). The lanes are columns; MU_TILE of them make a
 * tile, and what is left over is copied into one. */
#ifndef CRAFTC_MIXTURE_UPDATES_H
#define CRAFTC_MIXTURE_UPDATES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "mixture/_mixture_constants.h"
#include "common/_simd.h"

/* Gaussian columns with the same amount of data */
typedef struct {
    const double *s1, *s2;              /* sums of a component */
    const double *b0, *value;           /* prior of the precision, and its normalisation */
    double reach, kappa, a, digamma_a;  /* reach: weight of the rows; kappa, a: posterior */
    double evidence;                    /* the part of the log evidence that is the same in all columns */
    double *constant, *linear, *square; /* OUT expected log density */
    double *divergence;                 /* OUT KL of the posterior from the prior */
} mu_gaussian;

/* columns of any kind */
typedef struct {
    const double *reach, *s1, *s2;      /* sums of a component */
    const double *own[3], *noise[3];    /* expected log densities: constant, linear, square */
    const double *divergence;
    const double *log_mean, *log_rest;  /* of the probability that the component selects the column */
    int one_share;                      /* one such probability for all columns */
    double *p;                          /* probability that it is selected */
} mu_selection;

#define LEAVES "mixture/_mixture_updates_lanes.h"
#include "common/_lanes.h"

/* q(theta) of a component in D columns */
static inline void mu_fit(const mu_gaussian *c, ptrdiff_t D)
{
    SIMD_DISPATCH(mu_fit, (c, D));
}

/* q(y) of a component in D columns, which goes to p; returns its entropy */
static inline double mu_select(const mu_selection *c, ptrdiff_t D)
{
    return D > 0 ? SIMD_DISPATCH(mu_select, (c, D)) : 0.0;
}

/* the expected log likelihood of a component's cells in D columns, minus p times the divergence of its
 * q(theta) */
static inline double mu_likelihood(const mu_selection *c, ptrdiff_t D)
{
    return D > 0 ? SIMD_DISPATCH(mu_likelihood, (c, D)) : 0.0;
}

#endif
