/* Log likelihoods of the cells of a group under a shared distribution, less that under the distribution of
 * the whole table. */
#ifndef CRAFTC_CRAFT_SHARED_H
#define CRAFTC_CRAFT_SHARED_H

#include <stddef.h>
#include <stdint.h>
#include "table/_moments.h"

/* the distribution of the cells of feature d, and its gain over that of the whole table; feature = d + 1,
 * 0: none */
typedef struct {
    int64_t feature, cells[CRAFTC_NUMERIC_CELLS];
    double theta[4];            /* mean, precision and its logarithm; or a craft_theta */
    double gain;
} craft_fit;

static inline int craft_fit_is_of(const craft_fit *fit, ptrdiff_t d, const int64_t *cells)
{
    int64_t differ = fit->feature ^ (d + 1);
    for (int i = 0; i < CRAFTC_NUMERIC_CELLS; i++)
        differ |= fit->cells[i] ^ cells[i];
    return !differ;
}

/* S cells with sum of squared deviations `spread` and mean `shift`, under N(mean, 1 / precision); in units of
 * the table's deviation */
static inline double craft_numeric_likelihood(double S, double spread, double shift, double mean,
                                              double precision, double log_precision)
{
    return 0.5
        * (spread + S * shift * shift - precision * (spread + S * (shift - mean) * (shift - mean))
           + S * log_precision);
}

/* sum of log(eta / eta_0) over the counted cells */
static inline double craft_categorical_likelihood(const int64_t *counts, const double *log_ratio,
                                                  ptrdiff_t n_levels)
{
    double total = 0.0;
    for (ptrdiff_t t = 0; t < n_levels; t++)
        total += (double)counts[t] * log_ratio[t];
    return total;
}

#endif
