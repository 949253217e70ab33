/* One clone of the leaves of _mixture_updates.h, included once per instruction set by _lanes.h. Columns are
 * independent, and entropies are added in MU_TILE parts: nothing depends on the width of a vector. */

#define FROM(pointer) (*(const LANE *)((pointer) + d))
#define TO(pointer) (*(LANE *)((pointer) + d))

#define LANE_EXP THIS(mu_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP
#define LANE_LOG THIS(mu_log)
#include "common/_lane_log.h"
#undef LANE_LOG

TARGET static inline LANE THIS(mu_expected)(LANE reach, LANE s1, LANE s2, LANE constant, LANE linear,
                                            LANE square)
{
    return reach * constant + s1 * linear + s2 * square;
}

/* constant, linear and square of the expected log density of Gaussian cells: mean, 1 / kappa, and psi(a), ln
 * b, a / b of the precision */
TARGET static inline void THIS(mu_density)(LANE mean, LANE spread, LANE digamma_a, LANE log_b, LANE tau,
                                           LANE density[3])
{
    density[2] = -0.5 * tau;
    density[1] = tau * mean;
    density[0] = 0.5 * (digamma_a - log_b - LN_2PI - spread - density[1] * mean);
}

/* b of the precision: that of the prior and half the scatter around the mean */
TARGET static inline LANE THIS(mu_scale)(LANE b0, LANE s1, LANE s2, LANE mean)
{
    return b0 + 0.5 * LARGER(s2 - s1 * mean, ALL(LANE, 0.0));
}

/* a tile from column d on */
TARGET static inline void THIS(mu_fit_tile)(const mu_gaussian *c, ptrdiff_t from)
{
    for (ptrdiff_t d = from; d < from + MU_TILE; d += W) {
        const LANE s1 = FROM(c->s1), s2 = FROM(c->s2), mean = s1 / c->kappa;
        const LANE b = THIS(mu_scale)(FROM(c->b0), s1, s2, mean), log_b = THIS(mu_log)(b);
        const LANE evidence = c->evidence + FROM(c->value) - c->a * log_b;
        LANE density[3];
        THIS(mu_density)(mean, ALL(LANE, 1.0 / c->kappa), ALL(LANE, c->digamma_a), log_b, c->a / b, density);
        TO(c->constant) = density[0];
        TO(c->linear) = density[1];
        TO(c->square) = density[2];
        TO(c->divergence) = THIS(mu_expected)(ALL(LANE, c->reach), s1, s2, density[0], density[1], density[2])
            - evidence;
    }
}

/* The columns behind the whole tiles: with D >= MU_TILE, a tile ends with them and computes some before them
 * once more, to the same bits. */

TARGET static void THIS(mu_fit)(const mu_gaussian *c, ptrdiff_t D)
{
    const size_t bytes = (size_t)D * sizeof(double);
    double in[4][MU_TILE] = {{0}}, out[4][MU_TILE];
    mu_gaussian few = *c;
    for (ptrdiff_t d = 0; d + MU_TILE <= D; d += MU_TILE)
        THIS(mu_fit_tile)(c, d);
    if (D >= MU_TILE && D % MU_TILE)
        THIS(mu_fit_tile)(c, D - MU_TILE);
    if (D >= MU_TILE)
        return;
    for (int i = 0; i < MU_TILE; i++)
        in[2][i] = 1.0;
    memcpy(in[0], c->s1, bytes);
    memcpy(in[1], c->s2, bytes);
    memcpy(in[2], c->b0, bytes);
    memcpy(in[3], c->value, bytes);
    few.s1 = in[0], few.s2 = in[1], few.b0 = in[2], few.value = in[3];
    few.constant = out[0], few.linear = out[1], few.square = out[2], few.divergence = out[3];
    THIS(mu_fit_tile)(&few, 0);
    memcpy(c->constant, out[0], bytes);
    memcpy(c->linear, out[1], bytes);
    memcpy(c->square, out[2], bytes);
    memcpy(c->divergence, out[3], bytes);
}

/* what both tiles below need of the columns from d on: likelihoods under the component, minus the divergence,
 * and under the noise */
TARGET static inline void THIS(mu_likelihoods)(const mu_selection *c, ptrdiff_t d, LANE *own, LANE *noise)
{
    const LANE reach = FROM(c->reach), s1 = FROM(c->s1), s2 = FROM(c->s2);
    *own = THIS(mu_expected)(reach, s1, s2, FROM(c->own[0]), FROM(c->own[1]), FROM(c->own[2]))
        - FROM(c->divergence);
    *noise = THIS(mu_expected)(reach, s1, s2, FROM(c->noise[0]), FROM(c->noise[1]), FROM(c->noise[2]));
}

/* a tile from column d on; adds the entropies of its columns */
TARGET static inline void THIS(mu_select_tile)(const mu_selection *c, ptrdiff_t from, double *entropy)
{
    for (ptrdiff_t d = from; d < from + MU_TILE; d += W) {
        const LANE prior = c->one_share ? ALL(LANE, c->log_mean[0] - c->log_rest[0])
            : FROM(c->log_mean) - FROM(c->log_rest);
        LANE own, noise;
        THIS(mu_likelihoods)(c, d, &own, &noise);
        const LANE odds = prior + (own - noise), far = LARGER(odds, -odds),
            open = PICK(far <= MX_CERTAIN, far);
        const LANE less = PICK(far <= MX_CERTAIN, THIS(mu_exp)(-open)), most = 1.0 + less,
            small = less / most;
        /* the entropy is ln(1 + less) + far small, with the digits of `less` that 1 + less has lost */
        const LANE bits = THIS(mu_log)(most) + (less - (most - 1.0)) / most + open * small;
        *(LANE *)(entropy + d - from) += bits;
        TO(c->p) = PICK(odds > 0.0, 1.0 - small) + PICK(odds <= 0.0, small);
    }
}

/* a tile from column d on; adds the likelihoods of its columns */
TARGET static inline void THIS(mu_likelihood_tile)(const mu_selection *c, ptrdiff_t from, double *sum)
{
    for (ptrdiff_t d = from; d < from + MU_TILE; d += W) {
        LANE own, noise;
        THIS(mu_likelihoods)(c, d, &own, &noise);
        *(LANE *)(sum + d - from) += FROM(c->p) * (own - noise) + noise;
    }
}

/* columns fewer than a tile become its last ones, behind zeros */
TARGET static mu_selection THIS(mu_few)(const mu_selection *c, ptrdiff_t D, double in[13][MU_TILE])
{
    const size_t bytes = (size_t)D * sizeof(double);
    const ptrdiff_t first = MU_TILE - D;
    mu_selection few = *c;
    const double **from[12]
        = {&few.reach, &few.s1, &few.s2, &few.own[0], &few.own[1], &few.own[2], &few.noise[0],
                               &few.noise[1], &few.noise[2], &few.divergence, &few.log_mean, &few.log_rest};
    memset(in, 0, 13 * MU_TILE * sizeof(double));
    for (int i = 0; i < (c->one_share ? 10 : 12); i++) {
        memcpy(in[i] + first, *from[i], bytes);
        *from[i] = in[i];
    }
    memcpy(in[12] + first, c->p, bytes);
    few.p = in[12];
    return few;
}

/* The sum over D columns of what a tile adds; p (NULL: as it is) gets what a tile writes to its own. */
TARGET ALWAYS_INLINE double THIS(mu_sum)(const mu_selection *c, ptrdiff_t D, double *p,
                                         void (*tile)(const mu_selection *, ptrdiff_t, double *))
{
    const ptrdiff_t rest = D % MU_TILE;
    double in[13][MU_TILE], sum[MU_TILE] = {0}, last[MU_TILE] = {0};
    for (ptrdiff_t d = 0; d + MU_TILE <= D; d += MU_TILE)
        tile(c, d, sum);
    if (D < MU_TILE) {
        const mu_selection few = THIS(mu_few)(c, D, in);
        tile(&few, 0, last);
        if (p)
            memcpy(p, few.p + MU_TILE - D, (size_t)D * sizeof(double));
    } else if (rest)
        tile(c, D - MU_TILE, last);
    for (ptrdiff_t i = 0; i < rest; i++)
        sum[i] += last[MU_TILE - rest + i];
    return simd_total(sum);
}

TARGET static double THIS(mu_select)(const mu_selection *c, ptrdiff_t D)
{
    return THIS(mu_sum)(c, D, c->p, THIS(mu_select_tile));
}

TARGET static double THIS(mu_likelihood)(const mu_selection *c, ptrdiff_t D)
{
    return THIS(mu_sum)(c, D, NULL, THIS(mu_likelihood_tile));
}

#undef FROM
#undef TO
