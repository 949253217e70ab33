/* Log likelihoods of the cells of a group under a shared distribution, less that under the distribution of the whole table. */
#ifndef CRAFTC_CRAFT_SHARED_H
#define CRAFTC_CRAFT_SHARED_H

#include <stddef.h>
#include <stdint.h>

/* S cells with sum of squared deviations `spread` and mean `shift`, under N(mean, 1 / precision); in units of the table's deviation */
static inline double craft_numeric_likelihood(double S, double spread, double shift, double mean, double precision, double log_precision)
{
    return 0.5 * (spread + S * shift * shift - precision * (spread + S * (shift - mean) * (shift - mean)) + S * log_precision);
}

/* 1 for the groups whose cells cost less under a shared N(mean, 1 / precision) than under a distribution of their own at its price */
static inline void craft_cheaper_shared(ptrdiff_t K, const double *restrict S, const double *restrict spread, const double *restrict shift,
                                        const double *restrict gain, const double *restrict limit, double tolerance, double mean,
                                        double precision, double log_precision, uint8_t *restrict cheaper)
{
    for (ptrdiff_t k = 0; k < K; k++)
        cheaper[k] = gain[k] - craft_numeric_likelihood(S[k], spread[k], shift[k], mean, precision, log_precision) <= limit[k] + tolerance;
}

/* sum of log(eta / eta_0) over the counted cells */
static inline double craft_categorical_likelihood(const int64_t *counts, const double *log_ratio, ptrdiff_t n_levels)
{
    double total = 0.0;
    for (ptrdiff_t t = 0; t < n_levels; t++)
        total += (double)counts[t] * log_ratio[t];
    return total;
}

#endif
