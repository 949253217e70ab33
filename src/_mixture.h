/* The mixture with feature selection: the updates of q, each the exact maximiser of the bound, and the bound.
 *
 * Gaussian and Poisson columns differ in two places only, the posterior of a component's column and that of the noise. Both leave three
 * numbers that say the expected log density of a cell, E ln p(x) = reach * constant + x * linear + x^2 * square, so that the likelihood of
 * any rows is a combination of their (reach, sum x, sum x^2). reach is 1 for a Gaussian cell, the row's exposure for a count. */
#ifndef CRAFTC_MIXTURE_H
#define CRAFTC_MIXTURE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_gamma.h"
#include "_simd.h"

/* keeps a vector that is used twice in a register: loads are what the loop over columns is short of */
#if CRAFTC_CLONES
#define MX_HOLD(vector) __asm__("" : "+v"(vector))
#else
#define MX_HOLD(vector) ((void)0)
#endif

#define MX_DUST 0x1p-60         /* probabilities below this are 0: a sum of them is lost in rounding */
#define MX_CERTAIN 41.58883083359672    /* -ln MX_DUST */

/* Normal(0, 1 / (k0 tau)) Gamma(a0, b0) of a Gaussian column, Gamma(a0, b0) of a rate */
typedef struct {
    double k0, a0;
    const double *b0;           /* (D) */
    const double *value;        /* (D) a0 ln b0 - ln Gamma(a0) */
} mx_prior;

/* E ln p(x) of a cell = reach * constant + x * linear + x^2 * square */
typedef struct {
    double *constant, *linear, *square;
} mx_density;

/* the q(.) of a Beta variable, and of its complement */
typedef struct {
    double *a, *b, *log_mean, *log_rest, *value;    /* shapes, E ln, E ln(1 - .), ln B(a, b) */
} mx_beta;

typedef struct {
    ptrdiff_t K, D;             /* components there is room for, columns */
    int counts;                 /* Poisson columns; otherwise Gaussian */
    int own_noise;              /* every column has a noise precision of its own */
    int tied;                   /* one y_d for all components */
    double concentration;       /* alpha */
    double share_a, share_b;    /* Beta prior of lambda_d */
    mx_prior prior, noise_prior;
    /* what the responsibilities leave */
    double *size;               /* (K) N_k */
    double *reach, *s1, *s2;    /* (K, D) sums over the cells that are there */
    double *entropy;            /* (1) of the responsibilities */
    /* q(theta | y = 1), and the noise */
    mx_density own, noise;      /* (K, D), (D) */
    double *divergence;         /* (K, D) KL of q(theta) from the prior */
    double *noise_divergence;   /* (1) */
    /* q(y), q(lambda), q(v) */
    double *p;                  /* (K, D) */
    double *mask_entropy;       /* (1) */
    mx_beta share, stick;       /* (D), (K) */
    double *weight;             /* (K) E ln pi */
} mx_model;

/* ---- components and noise ---- */

static inline double mx_above(double x)
{
    return x > 0.0 ? x : 0.0;
}

/* what the amount of data alone decides; ln Gamma and psi are worked out anew only where it changed */
typedef struct {
    double reach, kappa, a, log_kappa, log_gamma_a, digamma_a;
} mx_counted;

static inline void mx_count(mx_counted *c, const mx_prior *prior, double reach)
{
    if (reach == c->reach)
        return;
    c->reach = reach;
    c->kappa = prior->k0 + reach;
    c->a = prior->a0 + 0.5 * reach;
    c->log_kappa = log(prior->k0 / c->kappa);
    c->log_gamma_a = log_gamma(c->a);
    c->digamma_a = digamma(c->a);
}

/* posterior Gamma(a, b) of a precision or a rate, and the ln evidence of the cells (ln x! and x ln e of counts left out) */
typedef struct {
    double a, b, log_b, evidence;
} mx_posterior;

static inline mx_posterior mx_fit(const mx_prior *prior, int counts, mx_counted *c, ptrdiff_t d, double reach, double s1, double s2)
{
    mx_posterior q;
    if (counts) {
        q.a = prior->a0 + s1;
        q.b = prior->b0[d] + reach;
        q.log_b = log(q.b);
        q.evidence = log_gamma(q.a) + prior->value[d] - q.a * q.log_b;
    } else {
        mx_count(c, prior, reach);
        q.a = c->a;
        q.b = prior->b0[d] + 0.5 * mx_above(s2 - s1 * s1 / c->kappa);
        q.log_b = log(q.b);
        q.evidence = c->log_gamma_a + prior->value[d] + 0.5 * c->log_kappa - reach * HALF_LN_2PI - q.a * q.log_b;
    }
    return q;
}

static inline double mx_expected(mx_density f, ptrdiff_t at, double reach, double s1, double s2)
{
    return reach * f.constant[at] + s1 * f.linear[at] + s2 * f.square[at];
}

static inline void mx_gaussian(mx_density out, ptrdiff_t at, const mx_counted *c, double s1, double digamma_a, double log_b, double tau)
{
    const double mean = s1 / c->kappa;
    out.square[at] = -0.5 * tau;
    out.linear[at] = tau * mean;
    out.constant[at] = 0.5 * (digamma_a - log_b - LN_2PI - 1.0 / c->kappa - tau * mean * mean);
}

static inline void mx_density_of(mx_density out, ptrdiff_t at, int counts, mx_posterior q, const mx_counted *c, double s1)
{
    if (!counts) {
        mx_gaussian(out, at, c, s1, c->digamma_a, q.log_b, q.a / q.b);
        return;
    }
    out.square[at] = 0.0;
    out.linear[at] = digamma(q.a) - q.log_b;
    out.constant[at] = -q.a / q.b;
}

/* q(theta | y = 1) of all components */
static inline void mx_components(mx_model *m)
{
    for (ptrdiff_t k = 0; k < m->K; k++) {
        mx_counted c = {.reach = -1.0};
        for (ptrdiff_t d = 0; d < m->D; d++) {
            const ptrdiff_t at = k * m->D + d;
            const double reach = m->reach[at], s1 = m->s1[at], s2 = m->s2[at];
            const mx_posterior q = mx_fit(&m->prior, m->counts, &c, d, reach, s1, s2);
            mx_density_of(m->own, at, m->counts, q, &c, s1);
            m->divergence[at] = mx_expected(m->own, at, reach, s1, s2) - q.evidence;
        }
    }
}

/* sum over the columns the noise's precision is common to: degrees of freedom and scatter; pooled (3, D) as mx_noise leaves it */
static inline void mx_common(const mx_model *m, const double *pooled, double *a, double *b)
{
    const double *reach = pooled, *s1 = pooled + m->D, *s2 = pooled + 2 * m->D;
    *a = m->noise_prior.a0;
    *b = m->noise_prior.b0[0];
    for (ptrdiff_t d = 0; d < m->D; d++) {
        *a += 0.5 * reach[d];
        *b += 0.5 * mx_above(s2[d] - s1[d] * s1[d] / (m->noise_prior.k0 + reach[d]));
    }
}

/* the noise, from the cells that nobody selects; pooled (3, D): OUT their reach, sums and squares */
static inline void mx_noise(mx_model *m, double *pooled)
{
    const ptrdiff_t D = m->D;
    const mx_prior *prior = &m->noise_prior;
    const int common = !m->counts && !m->own_noise;
    double *reach = pooled, *s1 = pooled + D, *s2 = pooled + 2 * D, evidence = 0.0, expected = 0.0, log_b = 0.0;
    mx_counted c = {.reach = -1.0}, whole = {.reach = -1.0};
    *m->noise_divergence = 0.0;
    if (!D)
        return;
    memset(pooled, 0, sizeof(double) * 3 * (size_t)D);
    for (ptrdiff_t k = 0; k < m->K; k++)
        for (ptrdiff_t d = 0; d < D; d++) {
            const double q = 1.0 - m->p[k * D + d];
            reach[d] += q * m->reach[k * D + d];
            s1[d] += q * m->s1[k * D + d];
            s2[d] += q * m->s2[k * D + d];
        }
    double a = 0.0, b = 1.0;
    if (common) {
        mx_common(m, pooled, &a, &b);
        mx_count(&whole, prior, 2.0 * (a - prior->a0));
        log_b = log(b);
        evidence = whole.log_gamma_a + prior->value[0] - a * log_b;
    }
    for (ptrdiff_t d = 0; d < D; d++) {
        if (common) {
            mx_count(&c, prior, reach[d]);
            mx_gaussian(m->noise, d, &c, s1[d], whole.digamma_a, log_b, a / b);
            evidence += 0.5 * c.log_kappa - reach[d] * HALF_LN_2PI;
        } else {
            const mx_posterior q = mx_fit(prior, m->counts, &c, d, reach[d], s1[d], s2[d]);
            mx_density_of(m->noise, d, m->counts, q, &c, s1[d]);
            evidence += q.evidence;
        }
        expected += mx_expected(m->noise, d, reach[d], s1[d], s2[d]);
    }
    *m->noise_divergence = expected - evidence;
}

/* ---- features ---- */

/* probability of the log-odds; adds its entropy */
static inline double mx_probability(double odds, double *entropy)
{
    const double far = fabs(odds);
    if (far > MX_CERTAIN)
        return odds > 0.0 ? 1.0 : 0.0;
    const double less = exp(-far), small = less / (1.0 + less);
    *entropy += log1p(less) + far * small;
    return odds > 0.0 ? 1.0 - small : small;
}

/* what component k gains where it selects column d, in nats */
static inline double mx_gain(const mx_model *m, ptrdiff_t k, ptrdiff_t d)
{
    const ptrdiff_t at = k * m->D + d;
    const double reach = m->reach[at], s1 = m->s1[at], s2 = m->s2[at];
    return mx_expected(m->own, at, reach, s1, s2) - m->divergence[at] - mx_expected(m->noise, d, reach, s1, s2);
}

/* q(y) */
static inline void mx_masks(mx_model *m)
{
    *m->mask_entropy = 0.0;
    for (ptrdiff_t d = 0; m->tied && d < m->D; d++) {
        double odds = m->share.log_mean[d] - m->share.log_rest[d];
        for (ptrdiff_t k = 0; k < m->K; k++)
            odds += mx_gain(m, k, d);
        odds = mx_probability(odds, m->mask_entropy);
        for (ptrdiff_t k = 0; k < m->K; k++)
            m->p[k * m->D + d] = odds;
    }
    for (ptrdiff_t k = 0; !m->tied && k < m->K; k++)
        for (ptrdiff_t d = 0; d < m->D; d++)
            m->p[k * m->D + d] = mx_probability(m->share.log_mean[d] - m->share.log_rest[d] + mx_gain(m, k, d), m->mask_entropy);
}

static inline void mx_fit_beta(mx_beta q, ptrdiff_t i, double a, double b)
{
    const double both = digamma(a + b);
    q.a[i] = a;
    q.b[i] = b;
    q.log_mean[i] = digamma(a) - both;
    q.log_rest[i] = digamma(b) - both;
    q.value[i] = log_beta(a, b);
}

/* E ln p - KL of a Beta variable whose prior and data ask for the shapes a, b; the prior's own ln B left out */
static inline double mx_beta_bound(mx_beta q, ptrdiff_t i, double a, double b)
{
    return (a - q.a[i]) * q.log_mean[i] + (b - q.b[i]) * q.log_rest[i] + q.value[i];
}

/* sum of p_kd over the `all` y that lambda_d governs */
static inline double mx_selected(const mx_model *m, ptrdiff_t d, double *all)
{
    double sum = 0.0;
    *all = m->tied ? 1.0 : (double)m->K;
    for (ptrdiff_t k = 0; k < (m->tied ? 1 : m->K); k++)
        sum += m->p[k * m->D + d];
    return sum;
}

/* q(lambda) */
static inline void mx_shares(mx_model *m)
{
    for (ptrdiff_t d = 0; d < m->D; d++) {
        double all;
        const double selected = mx_selected(m, d, &all);
        mx_fit_beta(m->share, d, m->share_a + selected, m->share_b + (all - selected));
    }
}

/* ---- sizes ---- */

/* q(v) and E ln pi */
static inline void mx_sticks(mx_model *m)
{
    double behind = 0.0, left = 0.0;
    for (ptrdiff_t k = m->K - 1; k >= 0; k--) {
        if (k + 1 < m->K)
            mx_fit_beta(m->stick, k, 1.0 + m->size[k], m->concentration + behind);
        behind += m->size[k];
    }
    for (ptrdiff_t k = 0; k + 1 < m->K; k++) {
        m->weight[k] = left + m->stick.log_mean[k];
        left += m->stick.log_rest[k];
    }
    m->weight[m->K - 1] = left;
}

/* what sizes give to the bound once q(v) is fitted to them, but for a constant */
static inline double mx_stick_value(const double *size, ptrdiff_t K, double concentration)
{
    double behind = 0.0, value = 0.0;
    for (ptrdiff_t k = K - 1; k >= 0; k--) {
        if (k + 1 < K)
            value += log_beta(1.0 + size[k], concentration + behind);
        behind += size[k];
    }
    return value;
}

/* order (K): components by falling size, equal ones as they are; whether that is another order */
static inline int mx_order(const mx_model *m, ptrdiff_t *order)
{
    int other = 0;
    for (ptrdiff_t k = 0; k < m->K; k++) {
        ptrdiff_t at = k;
        for (; at > 0 && m->size[order[at - 1]] < m->size[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
        other |= at < k;
    }
    return other;
}

static inline void mx_permute(double *table, ptrdiff_t K, ptrdiff_t D, const ptrdiff_t *order, double *work)
{
    for (ptrdiff_t k = 0; k < K; k++)
        memcpy(work + k * D, table + order[k] * D, sizeof(double) * (size_t)D);
    memcpy(table, work, sizeof(double) * (size_t)(K * D));
}

/* components by falling size, where that raises the bound: whether it did; work (K D + K) */
static inline int mx_sort(mx_model *m, ptrdiff_t *order, double *work)
{
    double *sorted = work + m->K * m->D;
    if (!mx_order(m, order))
        return 0;
    for (ptrdiff_t k = 0; k < m->K; k++)
        sorted[k] = m->size[order[k]];
    if (!(mx_stick_value(sorted, m->K, m->concentration) > mx_stick_value(m->size, m->K, m->concentration)))
        return 0;
    memcpy(m->size, sorted, sizeof(double) * (size_t)m->K);
    double *const tables[] = {m->reach, m->s1, m->s2, m->p, m->divergence, m->own.constant, m->own.linear, m->own.square};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        mx_permute(tables[i], m->K, m->D, order, work);
    mx_sticks(m);
    return 1;
}

/* ---- the bound ---- */

/* the evidence lower bound of the present q, but for what no update changes (ln x! and x ln e of counts) */
static inline double mx_bound(const mx_model *m)
{
    const double prior = log_beta(m->share_a, m->share_b);
    double bound = *m->entropy + *m->mask_entropy - *m->noise_divergence, behind = 0.0, all;
    for (ptrdiff_t k = 0; k < m->K; k++) {
        double sum = 0.0;
        for (ptrdiff_t d = 0; d < m->D; d++) {
            const ptrdiff_t at = k * m->D + d;
            sum += m->p[at] * mx_gain(m, k, d) + mx_expected(m->noise, d, m->reach[at], m->s1[at], m->s2[at]);
        }
        bound += sum;
    }
    for (ptrdiff_t d = 0; d < m->D; d++) {
        const double selected = mx_selected(m, d, &all);
        bound += mx_beta_bound(m->share, d, m->share_a + selected, m->share_b + (all - selected)) - prior;
    }
    for (ptrdiff_t k = m->K - 1; k >= 0; k--) {
        if (k + 1 < m->K)
            bound += mx_beta_bound(m->stick, k, 1.0 + m->size[k], m->concentration + behind) + log(m->concentration);
        behind += m->size[k];
    }
    return bound;
}

/* ---- rows ---- */

#define MX_TILE 32              /* rows of a tile: its lanes */
#define MX_COLUMNS 64           /* of a run: a tile of so many stays in the nearest cache */
#define MX_PAD 8                /* cells of a row are padded to whole vectors */
#define MX_CELLS 16384          /* of a block of rows, about */
#define MX_MOST_ROWS 256        /* of a block */

/* the table as the model sees it: z = (x - centre) * scale of some columns */
typedef struct {
    const void *X;              /* (n, width) */
    int single, all;            /* float32; whether the model has all columns, in order */
    ptrdiff_t width, D, stride; /* columns of X, of the model, and those padded */
    const int32_t *column;      /* (D) */
    const double *centre, *scale;   /* (D) */
    const double *exposure;     /* (n), or NULL: all one */
    int holes;                  /* whether there may be missing cells: NaN */
} mx_table;

/* What a row owes to every component, told by the cells that matter: E ln pi + sum over selected columns of p (E ln own - E ln noise). */
typedef struct {
    ptrdiff_t K;                /* components that are not empty */
    int32_t *component;         /* (K) their numbers */
    ptrdiff_t *first;           /* (runs * K + 1) where their selected columns of every run of columns begin in the lists below */
    uint32_t *place;            /* of the column in a tile of its run */
    double *linear, *square;
    double *constant, *reach;   /* (K) once per row, once per unit of exposure */
    double *hole;               /* (D, K) what a missing cell takes away per unit of exposure */
} mx_lists;

/* sums over a segment of rows: size (K), reach (K), entropy, s1 (K, stride), s2 (K, stride), missing reach (K, stride) if there are holes */
typedef struct {
    double *size, *reach, *entropy, *s1, *s2, *missing;
} mx_sums;

typedef struct {
    double *z;                  /* (rows, stride) */
    double *tile;               /* (MX_COLUMNS, MX_TILE) */
    double *r;                  /* (K, rows) */
    double *weight;             /* (rows) */
    int32_t *row;               /* (rows) */
    int64_t *hole;              /* (rows * D) row * D + d of the missing cells */
} mx_scratch;

/* what is asked of a pass over the rows; places that are NULL are not filled */
typedef struct {
    int hard;                   /* each row goes to its best component wholly */
    const double *given;        /* (n, K of the model) responsibilities, in place of new ones */
    double *proba;              /* (n, K of the lists) */
    int32_t *label;             /* (n) place in the lists of the best component */
    double *evidence;           /* (n) ln sum exp */
} mx_asked;

static inline ptrdiff_t mx_stride(ptrdiff_t D)
{
    return (D + MX_PAD - 1) / MX_PAD * MX_PAD;
}

static inline ptrdiff_t mx_block(ptrdiff_t D)
{
    const ptrdiff_t rows = MX_CELLS / mx_stride(D > 0 ? D : 1) / MX_TILE * MX_TILE;
    return rows < MX_TILE ? MX_TILE : rows > MX_MOST_ROWS ? MX_MOST_ROWS : rows;
}

static inline ptrdiff_t mx_runs(ptrdiff_t D)
{
    return (D + MX_COLUMNS - 1) / MX_COLUMNS;
}

/* lists of the present q; there is room for K D columns */
static inline void mx_list(const mx_model *m, int holes, mx_lists *out)
{
    ptrdiff_t at = 0;
    out->K = 0;
    for (ptrdiff_t k = 0; k < m->K; k++)
        if (m->size[k] > 0.0) {
            out->component[out->K] = (int32_t)k;
            out->constant[out->K] = m->weight[k];
            out->reach[out->K++] = 0.0;
        }
    out->first[0] = 0;
    for (ptrdiff_t run = 0; run < mx_runs(m->D); run++)
        for (ptrdiff_t j = 0; j < out->K; j++) {
            const ptrdiff_t start = run * MX_COLUMNS, stop = start + MX_COLUMNS < m->D ? start + MX_COLUMNS : m->D;
            for (ptrdiff_t d = start; d < stop; d++) {
                const ptrdiff_t from = out->component[j] * m->D + d;
                const double constant = m->p[from] * (m->own.constant[from] - m->noise.constant[d]);
                if (holes)
                    out->hole[d * out->K + j] = constant;
                if (m->p[from] == 0.0)
                    continue;
                out->place[at] = (uint32_t)((d - start) * MX_TILE);
                out->linear[at] = m->p[from] * (m->own.linear[from] - m->noise.linear[d]);
                out->square[at] = m->p[from] * (m->own.square[from] - m->noise.square[d]);
                out->reach[j] += constant;
                at++;
            }
            out->first[run * out->K + j + 1] = at;
        }
}

#define LEAVES "_mixture_rows.h"
#include "_lanes.h"

/* rows [start, stop): their responsibilities, and the sums of a segment (NULL: not wanted) */
static inline void mx_rows(const mx_table *t, const mx_lists *l, const mx_asked *asked, ptrdiff_t K, int linear, ptrdiff_t start,
                           ptrdiff_t stop, mx_sums *sums, mx_scratch *scratch)
{
    SIMD_DISPATCH(mx_rows, (t, l, asked, K, linear, start, stop, sums, scratch));
}

#endif
