/* Moves of the mixture beyond the updates of q, each kept only where the bound rises: components joined, columns let go. */
#ifndef CRAFTC_MIXTURE_MOVES_H
#define CRAFTC_MIXTURE_MOVES_H

#include "_mixture.h"

/* ---- merges ---- */

static inline double mx_log_add(double a, double b)
{
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low - high < -MX_CERTAIN ? high : high + log1p(exp(low - high));
}

/* What the cells of components i and j, joined, are worth above the noise: lambda, the noise and m as they are, theta and y at their
 * best. i == j: the component as it is; i < 0: an empty one. */
static inline double mx_worth(const mx_model *m, ptrdiff_t i, ptrdiff_t j)
{
    double worth = 0.0;
    mx_counted c = {.reach = -1.0};
    for (ptrdiff_t d = 0; d < m->D; d++) {
        double gain = 0.0;
        if (i >= 0) {
            const ptrdiff_t at = i * m->D + d, other = j * m->D + d;
            const double reach = m->reach[at] + (i == j ? 0.0 : m->reach[other]);
            const double s1 = m->s1[at] + (i == j ? 0.0 : m->s1[other]), s2 = m->s2[at] + (i == j ? 0.0 : m->s2[other]);
            gain = mx_fit(&m->prior, m->counts, &c, d, reach, s1, s2).evidence - mx_expected(m->noise, d, reach, s1, s2);
        }
        worth += m->tied ? m->p[d] * gain : mx_log_add(gain + m->share.log_mean[d], m->share.log_rest[d]);
    }
    return worth;
}

/* what the sizes win where i and j are joined; order: components by falling size; work (K) */
static inline double mx_join_value(const mx_model *m, ptrdiff_t i, ptrdiff_t j, const ptrdiff_t *order, double *work)
{
    const double both = m->size[i] + m->size[j];
    ptrdiff_t n = 0;
    int placed = 0;
    for (ptrdiff_t k = 0; k < m->K; k++) {
        if (!placed && m->size[order[k]] <= both) {
            work[n++] = both;
            placed = 1;
        }
        if (order[k] != i && order[k] != j)
            work[n++] = m->size[order[k]];
    }
    work[n] = 0.0;
    return mx_stick_value(work, m->K, m->concentration) - mx_stick_value(m->size, m->K, m->concentration);
}

/* What joining pairs should give to the bound, the labels as they are; gain (K, K), upper triangle, 0 where a component is empty */
static inline void mx_pair_gains(const mx_model *m, ptrdiff_t *order, double *work, double *gain)
{
    const ptrdiff_t K = m->K;
    const double nothing = mx_worth(m, -1, -1);
    memset(gain, 0, sizeof(double) * (size_t)(K * K));
    mx_order(m, order);
    for (ptrdiff_t k = 0; k < K; k++)
        work[k] = m->size[k] > 0.0 ? mx_worth(m, k, k) : 0.0;
    for (ptrdiff_t i = 0; i < K; i++)
        for (ptrdiff_t j = i + 1; j < K; j++)
            if (m->size[i] > 0.0 && m->size[j] > 0.0)
                gain[i * K + j] = mx_worth(m, i, j) + nothing - work[i] - work[j] + mx_join_value(m, i, j, order, work + K);
}

/* ---- columns that every component selects ---- */

/* what the ln evidence of the noise wins where more cells of column d are noise; a, b of mx_common */
static inline double mx_noise_wins(const mx_model *m, const double *pooled, double a, double b, ptrdiff_t d, double reach, double s1, double s2)
{
    const mx_prior *prior = &m->noise_prior;
    const double r = pooled[d], t1 = pooled[m->D + d], t2 = pooled[2 * m->D + d];
    mx_counted c = {.reach = -1.0};
    if (m->counts || m->own_noise) {
        const double before = mx_fit(prior, m->counts, &c, d, r, t1, t2).evidence;
        return mx_fit(prior, m->counts, &c, d, r + reach, t1 + s1, t2 + s2).evidence - before;
    }
    const double kappa = prior->k0 + r, wider = kappa + reach;
    const double scatter = mx_above(t2 + s2 - (t1 + s1) * (t1 + s1) / wider) - mx_above(t2 - t1 * t1 / kappa);
    return log_gamma(a + 0.5 * reach) - log_gamma(a) + a * log(b) - (a + 0.5 * reach) * log(b + 0.5 * scatter)
           + 0.5 * log(kappa / wider) - reach * HALF_LN_2PI;
}

/* what the bound wins where components [first, last) let go of column d, noise and lambda refitted */
static inline double mx_release_wins(const mx_model *m, const double *pooled, double a, double b, ptrdiff_t d, ptrdiff_t first, ptrdiff_t last)
{
    double reach = 0.0, s1 = 0.0, s2 = 0.0, own = 0.0, all;
    const double selected = mx_selected(m, d, &all), p = m->p[first * m->D + d];
    const double rich = m->share_a + selected, poor = m->share_b + (all - selected);
    for (ptrdiff_t k = first; k < last; k++) {
        const ptrdiff_t at = k * m->D + d;
        own += mx_expected(m->own, at, m->reach[at], m->s1[at], m->s2[at]) - m->divergence[at];
        reach += m->reach[at];
        s1 += m->s1[at];
        s2 += m->s2[at];
    }
    return mx_noise_wins(m, pooled, a, b, d, reach, s1, s2) - own + log_beta(rich - p, poor + p) - log_beta(rich, poor);
}

/* A column that every component selects has no noise to compare with, and so stays selected. Where one component (tied: all) is better
 * told by a noise fitted to it, it lets go. Returns how many columns did; all factors but that of the labels are then fitted anew. */
static inline ptrdiff_t mx_release(mx_model *m, double margin, double *pooled)
{
    ptrdiff_t released = 0;
    mx_components(m);
    mx_noise(m, pooled);
    mx_sticks(m);
    for (ptrdiff_t d = 0; d < m->D; d++) {
        double a, b, best = margin;
        ptrdiff_t who = -1;
        int everyone = 1;
        for (ptrdiff_t k = 0; k < m->K; k++)
            everyone &= !(m->size[k] > 0.0) || m->p[k * m->D + d] > 0.5;
        if (!everyone)
            continue;
        mx_common(m, pooled, &a, &b);
        for (ptrdiff_t k = 0; k < (m->tied ? 1 : m->K); k++) {
            if (!m->tied && !(m->size[k] > 0.0))
                continue;
            const double wins = mx_release_wins(m, pooled, a, b, d, k, m->tied ? m->K : k + 1);
            if (wins > best) {
                best = wins;
                who = k;
            }
        }
        if (who < 0)
            continue;
        for (ptrdiff_t k = who; k < (m->tied ? m->K : who + 1); k++)
            m->p[k * m->D + d] = 0.0;
        mx_noise(m, pooled);
        released++;
    }
    if (released) {
        mx_shares(m);
        mx_masks(m);
        mx_noise(m, pooled);
        mx_shares(m);
    }
    return released;
}

#endif
