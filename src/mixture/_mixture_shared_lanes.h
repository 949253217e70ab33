/* One clone of the leaves of _mixture_shared.h, included once per instruction set by _lanes.h after those of
 * _mixture_updates.h. Columns are independent, and sums over them are added in MU_TILE parts: nothing depends
 * on the width of a vector. */

#define LANE_LOG THIS(mu_log)
#define LANE_GAMMA THIS(mu_gamma)
#include "common/_lane_gamma.h"
#undef LANE_LOG
#undef LANE_GAMMA

#define AT(array) (*(LANE *)((array) + v))

/* n cells fill a tile, `rest` behind them */
TARGET static inline void THIS(mu_tile)(double *tile, const double *from, ptrdiff_t n, double rest)
{
    for (ptrdiff_t i = n; i < MU_TILE; i++)
        tile[i] = rest;
    memcpy(tile, from, sizeof(double) * (size_t)n);
}

/* to += what a component does not select, of D columns */
TARGET static inline void THIS(mu_pool_one)(const double *p, const double *from, ptrdiff_t D, double *to)
{
    ptrdiff_t d = 0;
    for (; d + W <= D; d += W)
        *(LANE *)(to + d) += (1.0 - *(const LANE *)(p + d)) * *(const LANE *)(from + d);
    for (; d < D; d++)
        to[d] += (1.0 - p[d]) * from[d];
}

TARGET static void THIS(mu_pool)(const mu_noise *c)
{
    const double *const sums[3] = {c->reach, c->s1, c->s2};
    for (int i = 0; i < 3; i++) {
        memset(c->rest[i], 0, sizeof(double) * (size_t)c->D);
        for (ptrdiff_t at = 0; at < c->K * c->D; at += c->D)
            THIS(mu_pool_one)(c->p + at, sums[i] + at, c->D, c->rest[i]);
    }
}

TARGET static double THIS(mu_fit_noise)(const mu_noise *c)
{
    double sum[MU_TILE] = {0};
    for (ptrdiff_t d = 0; d < c->D; d += MU_TILE) {
        const ptrdiff_t n = c->D - d < MU_TILE ? c->D - d : MU_TILE;
        double in[5][MU_TILE], out[3][MU_TILE], difference[MU_TILE];
        for (int i = 0; i < 3; i++)
            THIS(mu_tile)(in[i], c->rest[i] + d, n, 0.0);
        THIS(mu_tile)(in[3], c->b0 + d, n, 1.0);
        THIS(mu_tile)(in[4], c->value + d, n, 0.0);
        for (int v = 0; v < MU_TILE; v += W) {
            const LANE reach = AT(in[0]), s1 = AT(in[1]), s2 = AT(in[2]), kappa = c->k0 + reach,
                mean = s1 / kappa;
            LANE evidence = 0.5 * THIS(mu_log)(c->k0 / kappa) - reach * HALF_LN_2PI;
            LANE digamma_a = ALL(LANE, c->digamma_a), log_b = ALL(LANE, c->log_b), tau = ALL(LANE, c->tau),
                density[3];
            if (!c->common) {
                const LANE a = c->a0 + 0.5 * reach, b = THIS(mu_scale)(AT(in[3]), s1, s2, mean);
                LANE log_gamma_a;
                THIS(mu_gamma)(a, &log_gamma_a, &digamma_a);
                log_b = THIS(mu_log)(b);
                tau = a / b;
                evidence += log_gamma_a + AT(in[4]) - a * log_b;
            }
            THIS(mu_density)(mean, 1.0 / kappa, digamma_a, log_b, tau, density);
            for (int i = 0; i < 3; i++)
                AT(out[i]) = density[i];
            AT(difference) = THIS(mu_expected)(reach, s1, s2, density[0], density[1], density[2]) - evidence;
        }
        memcpy(c->constant + d, out[0], sizeof(double) * (size_t)n);
        memcpy(c->linear + d, out[1], sizeof(double) * (size_t)n);
        memcpy(c->square + d, out[2], sizeof(double) * (size_t)n);
        for (ptrdiff_t i = 0; i < n; i++)
            sum[i] += difference[i];
    }
    return simd_total(sum);
}

/* shapes of n shares from column d on: the prior's and the sums of p */
TARGET static inline void THIS(mu_shapes)(const mu_shares *c, ptrdiff_t d, ptrdiff_t n, double *a, double *b)
{
    double sum[MU_TILE] = {0}, last[MU_TILE];
    for (ptrdiff_t k = 0; k < c->K; k++) {
        const double *p = c->p + k * c->D + d;
        if (n < MU_TILE) {
            THIS(mu_tile)(last, p, n, 0.0);
            p = last;
        }
        for (int v = 0; v < MU_TILE; v += W)
            AT(sum) += *(const LANE *)(p + v);
    }
    for (int v = 0; v < MU_TILE; v += W) {
        AT(a) = c->prior_a + AT(sum);
        AT(b) = c->prior_b + ((double)c->K - AT(sum));
    }
}

TARGET static void THIS(mu_fit_shares)(const mu_shares *c)
{
    for (ptrdiff_t d = 0; d < c->D; d += MU_TILE) {
        const ptrdiff_t n = c->D - d < MU_TILE ? c->D - d : MU_TILE;
        double *const to[5] = {c->a, c->b, c->log_mean, c->log_rest, c->value};
        double out[5][MU_TILE];
        THIS(mu_shapes)(c, d, n, out[0], out[1]);
        for (int v = 0; v < MU_TILE; v += W) {
            LANE log_gamma_a, log_gamma_b, digamma_a, digamma_b;
            THIS(mu_gamma)(AT(out[0]), &log_gamma_a, &digamma_a);
            THIS(mu_gamma)(AT(out[1]), &log_gamma_b, &digamma_b);
            AT(out[2]) = digamma_a - c->digamma_both;
            AT(out[3]) = digamma_b - c->digamma_both;
            AT(out[4]) = log_gamma_a + log_gamma_b - c->log_gamma_both;
        }
        for (int i = 0; i < 5; i++)
            memcpy(to[i] + d, out[i], sizeof(double) * (size_t)n);
    }
}

TARGET static double THIS(mu_shares_elbo)(const mu_shares *c)
{
    double sum[MU_TILE] = {0};
    for (ptrdiff_t d = 0; d < c->D; d += MU_TILE) {
        const ptrdiff_t n = c->D - d < MU_TILE ? c->D - d : MU_TILE;
        double a[MU_TILE], b[MU_TILE];
        THIS(mu_shapes)(c, d, n, a, b);
        for (ptrdiff_t i = 0; i < n; i++)
            sum[i] += (a[i] - c->a[d + i]) * c->log_mean[d + i] + (b[i] - c->b[d + i]) * c->log_rest[d + i]
                + c->value[d + i];
    }
    return simd_total(sum);
}

#undef AT
