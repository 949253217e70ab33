/* ln Gamma(x) and its derivative for x > 0, by Stirling's series after a shift to x >= 10; absolute error of a few 1e-16 max(1, |value|).
 * One formula on every platform, and without the global sign of the C library's lgamma, which threads would share. */
#ifndef CRAFTC_GAMMA_H
#define CRAFTC_GAMMA_H

#include <math.h>

#define GAMMA_FAR 10.0          /* from here on six terms of the series are exact */
#define HALF_LN_2PI 0.91893853320467274178
#define LN_2PI (2.0 * HALF_LN_2PI)

static inline double log_gamma(double x)
{
    double shift = 1.0, r, s;
    for (; x < GAMMA_FAR; x += 1.0)
        shift *= x;
    r = 1.0 / x;
    s = r * r;
    s = r * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * (691.0 / 360360))))));
    s += (x - 0.5) * log(x) - x + HALF_LN_2PI;
    return shift == 1.0 ? s : s - log(shift);
}

static inline double digamma(double x)
{
    double shift = 0.0, r, s;
    for (; x < GAMMA_FAR; x += 1.0)
        shift += 1.0 / x;
    r = 1.0 / x;
    s = r * r;
    s = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760))))));
    return log(x) - 0.5 * r - s - shift;
}

/* ln B(a, b) */
static inline double log_beta(double a, double b)
{
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b);
}

#endif
