/* Collapsed BP-means: features are never held, only what the least squares fit of the other rows makes of them.
 *
 * A row put back as z raises the squared error by f(z) = |x - z B|^2 / (1 + z H z'), where H = inv(Z_-'Z_-) and B = H Z_-'X belong to the
 * other rows: with b = B x and G = B B', three quadratic forms in z. They follow from those of all rows by one rank-one step. */

typedef struct {
    ptrdiff_t K;                /* features the other rows keep up */
    uint64_t keep;              /* which of all features they are */
    uint64_t present;           /* the row's own among them */
    double cost;                /* what the row costs as it is */
    double b[BP_MOST], H[BP_MOST * BP_MOST], G[BP_MOST * BP_MOST];
} bp_others;

/* an increase that cannot be told from 0 / 0: the row may hold a feature up all by itself */
#define BP_LEVERAGE 1e-6

/* f at z */
static inline double bp_increase(const bp_others *o, double norm, ptrdiff_t lanes, uint64_t mask)
{
    double above = norm, below = 1.0;
    for (uint64_t z = mask; z; z &= z - 1) {
        const ptrdiff_t k = bp_lowest(z);
        above -= 2.0 * o->b[k];
        for (uint64_t y = mask; y; y &= y - 1) {
            above += o->G[k * lanes + bp_lowest(y)];
            below += o->H[k * lanes + bp_lowest(y)];
        }
    }
    return above > 0.0 ? above / below : 0.0;
}

/* the fit without row i from the integers, only of those features that the other rows keep up */
static inline void bp_refit_others(const bp_model *m, ptrdiff_t i, const double *p, double penalty, bp_others *o)
{
    double M[BP_MOST * BP_MOST] = {0}, Q[BP_MOST * BP_MOST] = {0}, own[BP_MOST];
    ptrdiff_t column[BP_MOST];
    o->keep = bp_independent(m, i);
    o->present = bp_extract(m->mask[i], o->keep);
    o->K = 0;
    for (uint64_t z = o->keep; z; z &= z - 1, o->K++) {
        column[o->K] = bp_lowest(z);
        own[o->K] = (double)(m->mask[i] >> column[o->K] & 1);
    }
    for (ptrdiff_t k = 0; k < o->K; k++)
        for (ptrdiff_t j = 0; j < o->K; j++) {
            const ptrdiff_t from = column[k] * m->lanes + column[j], to = k * m->lanes + j;
            M[to] = m->M[from] - own[k] * own[j];
            Q[to] = m->Q[from] - own[k] * p[column[j]] - p[column[k]] * own[j] + own[k] * own[j] * m->norm[i];
        }
    bp_inverse(M, o->H, o->K, m->lanes);
    for (ptrdiff_t k = 0; k < o->K; k++) {
        o->b[k] = 0.0;
        for (ptrdiff_t j = 0; j < o->K; j++)
            o->b[k] += o->H[k * m->lanes + j] * (p[column[j]] - own[j] * m->norm[i]);
    }
    bp_gram_of_fit(o->H, M, Q, o->G, o->K, m->lanes);
    o->cost = o->K < m->K ? penalty : bp_increase(o, m->norm[i], m->lanes, o->present);
}

/* the fit without row i, given p = Z'X x */
static inline void bp_leave_out(const bp_model *m, ptrdiff_t i, const double *p, double penalty, bp_others *o)
{
    const ptrdiff_t K = m->K, lanes = m->lanes;
    const uint64_t mask = m->mask[i];
    double u[BP_MOST], c[BP_MOST], leverage = 0.0, inner = m->norm[i], left = m->norm[i];
    for (ptrdiff_t k = 0; k < K; k++) {
        u[k] = o->b[k] = c[k] = 0.0;
        for (ptrdiff_t j = 0; j < K; j++)
            o->b[k] += m->H[k * lanes + j] * p[j];
        for (uint64_t z = mask; z; z &= z - 1) {
            u[k] += m->H[k * lanes + bp_lowest(z)];
            c[k] -= m->G[k * lanes + bp_lowest(z)];
        }
        c[k] += o->b[k];
    }
    for (uint64_t z = mask; z; z &= z - 1) {
        leverage += u[bp_lowest(z)];
        inner -= o->b[bp_lowest(z)];
        left -= o->b[bp_lowest(z)] + c[bp_lowest(z)];
    }
    left = left > 0.0 ? left : 0.0;
    o->K = K, o->keep = bp_first(K), o->present = mask;
    if (leverage < 1.0 - BP_LEVERAGE) {
        const double s = 1.0 / (1.0 - leverage);
        o->cost = left * s;
        for (ptrdiff_t k = 0; k < K; k++) {
            o->b[k] -= s * inner * u[k];
            for (ptrdiff_t j = 0; j < K; j++) {
                o->H[k * lanes + j] = m->H[k * lanes + j] + s * u[k] * u[j];
                o->G[k * lanes + j] = m->G[k * lanes + j] - s * (u[k] * c[j] + c[k] * u[j]) + s * s * left * u[k] * u[j];
            }
        }
        return;
    }
    bp_refit_others(m, i, p, penalty, o);
}

/* bit after bit takes the value that lowers f */
static inline uint64_t bp_collapsed_flip(const bp_others *o, double norm, double slack, ptrdiff_t lanes, double *cost)
{
    double g[BP_MOST], h[BP_MOST], above = norm, below = 1.0;
    uint64_t mask = o->present;
    for (ptrdiff_t k = 0; k < o->K; k++) {
        g[k] = -o->b[k], h[k] = 0.0;
        for (uint64_t z = mask; z; z &= z - 1) {
            g[k] += o->G[k * lanes + bp_lowest(z)];
            h[k] += o->H[k * lanes + bp_lowest(z)];
        }
    }
    for (uint64_t z = mask; z; z &= z - 1) {
        above += g[bp_lowest(z)] - o->b[bp_lowest(z)];
        below += h[bp_lowest(z)];
    }
    for (ptrdiff_t k = 0; k < o->K; k++) {
        const double sign = mask >> k & 1 ? -1.0 : 1.0;
        const double next_above = above + 2.0 * sign * g[k] + o->G[k * lanes + k];
        const double next_below = below + 2.0 * sign * h[k] + o->H[k * lanes + k];
        if (!(next_above / next_below < above / below - slack))
            continue;
        mask ^= (uint64_t)1 << k;
        above = next_above, below = next_below;
        for (ptrdiff_t j = 0; j < o->K; j++) {
            g[j] += sign * o->G[k * lanes + j];
            h[j] += sign * o->H[k * lanes + j];
        }
    }
    *cost = above > 0.0 ? above / below : 0.0;
    return mask;
}

/* the best f of all combinations; the present one stays unless another is lower by more than slack */
static inline uint64_t bp_collapsed_best(const bp_others *o, double norm, double slack, ptrdiff_t lanes, double *cost, double *scratch)
{
    const ptrdiff_t n = (ptrdiff_t)1 << o->K;
    double *above = scratch, *below = scratch + n;
    ptrdiff_t best = 0;
    bp_quadratic(o->G, o->b, -2.0, norm, o->K, lanes, above);
    bp_quadratic(o->H, NULL, 0.0, 1.0, o->K, lanes, below);
    for (ptrdiff_t z = 0; z < n; z++) {
        above[z] = (above[z] > 0.0 ? above[z] : 0.0) / below[z];
        best = above[z] < above[best] ? z : best;
    }
    if (above[best] < above[o->present] - slack) {
        const double enough = above[best] + slack;
        for (best = 0; !(above[best] <= enough);)
            best++;
    } else
        best = (ptrdiff_t)o->present;
    *cost = above[best];
    return (uint64_t)best;
}

/* what a row does: 0 it stays, 1 it takes `chosen`, 2 it takes `chosen` and opens a feature of its own, 3 it takes `chosen` (bits of
 * o->keep) and the feature it held up alone is dropped */
static inline int bp_collapse(const bp_model *m, ptrdiff_t i, const double *p, double penalty, ptrdiff_t cap, double slack, bp_others *o,
                       uint64_t *chosen, double *scratch)
{
    double cost;
    bp_leave_out(m, i, p, penalty, o);
    if (o->K <= m->exact)
        *chosen = bp_collapsed_best(o, m->norm[i], slack, m->lanes, &cost, scratch);
    else
        *chosen = bp_collapsed_flip(o, m->norm[i], slack, m->lanes, &cost);
    if (o->K < m->K)
        return cost < penalty - slack ? 3 : 0;
    if (cost > penalty + slack && m->K < cap)
        return o->cost - penalty > slack ? 2 : 0;
    return o->cost - cost > slack ? 1 : 0;
}
