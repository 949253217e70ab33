/* One clone of the pass over the rows of _spectral.h, included once per instruction set by _lanes.h.
 *
 * Nodes of the grid, and indicators, lie side by side in the lanes; a row's neighbours come one after the other. Sums over lanes are kept
 * in SP_LANES of them whatever the width of a vector, so that all clones give the same bits. */

#define VECTORS (SP_LANES / W)          /* of the lanes that sums are kept in */
#define TILE (SP_TILE / W)              /* of a tile of nodes, which stays in registers */
#define AT(pointer) (*(LANE *)(pointer))
#define READ(pointer) (*(const LANE *)(pointer))

#define LANE_EXP THIS(sp_exp)
#include "_lane_exp.h"
#undef LANE_EXP

/* where the signs of a scale lie for x, and max(|x|, eps) */
static inline const double *THIS(sp_side)(const sp_scale *a, double x, double eps, double *size)
{
    *size = fabs(x) > eps ? fabs(x) : eps;
    return a->sign + (x < -eps ? 0 : x > eps ? 2 : 1) * a->width;
}

/* out = similarities of x to a scale */
TARGET static inline void THIS(sp_similar)(const sp_scale *a, double x, double eps, double *restrict out)
{
    double size;
    const double *restrict sign = THIS(sp_side)(a, x, eps, &size);
    const double inverse = 1.0 / size;
    for (ptrdiff_t j = 0; j < a->width; j += W) {
        const LANE up = READ(a->size + j) * inverse, down = READ(a->inverse + j) * size;
        AT(out + j) = SMALLER(up, down) * READ(sign + j);
    }
}

static inline double THIS(sp_total)(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* ln of a product of many numbers >= 1: the logarithm is taken only where the product grows too large */
static inline void THIS(sp_log)(double *product, double *log_sum, double z)
{
    if (z > 1e100) {
        *log_sum += log(z);
        return;
    }
    *product *= z;
    if (*product > 1e200) {
        *log_sum += log(*product);
        *product = 1.0;
    }
}

/* Energies of numeric node s on the grid, and the largest. */
TARGET ALWAYS_INLINE double THIS(sp_on_grid)(const sp_table *t, const sp_weights *w, ptrdiff_t s, ptrdiff_t there,
                                             const sp_scratch *k)
{
    const ptrdiff_t M = t->grid.width, p1 = t->rows.p1, tables = w->table ? t->J : 0;
    const double *restrict unary = w->unary + s * M, *restrict near = w->near + s * t->seen;
    const double *restrict table = w->table + s * M;
    double *restrict energy = k->grid + s * M, lane[SP_LANES], most = -INFINITY;
    LANE e[TILE], high[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        high[v] = (LANE){0} - INFINITY;
    for (ptrdiff_t m = 0; m < M; m += SP_TILE) {
        for (int v = 0; v < TILE; v++)
            e[v] = READ(unary + m + v * W);
        for (ptrdiff_t j = 0; j < tables; j++) {
            const double *restrict row = table + k->row[j] * p1 * M + m;
            for (int v = 0; v < TILE; v++)
                e[v] += READ(row + v * W);
        }
        for (ptrdiff_t j = 0; j < there; j++) {
            const double *restrict g = k->near + k->there[j] * M + m, weight = near[k->there[j]];
            for (int v = 0; v < TILE; v++)
                e[v] += READ(g + v * W) * weight;
        }
        for (int v = 0; v < TILE; v++) {
            high[v % VECTORS] = LARGER(e[v], high[v % VECTORS]);
            AT(energy + m + v * W) = e[v];
        }
    }
    for (int v = 0; v < VECTORS; v++)
        AT(lane + v * W) = high[v];
    for (int v = 0; v < SP_LANES; v++)
        most = lane[v] > most ? lane[v] : most;
    return most;
}

/* exp(energy - most) of numeric node s, and their sum */
TARGET ALWAYS_INLINE double THIS(sp_weigh)(ptrdiff_t M, double *restrict energy, double most)
{
    double lane[SP_LANES];
    LANE sum[VECTORS];
    memset(sum, 0, sizeof sum);
    for (ptrdiff_t m = 0; m < M; m += SP_TILE)
        for (int v = 0; v < TILE; v++) {
            const LANE zero = {0}, below = READ(energy + m + v * W) - most, x = THIS(sp_exp)(LARGER(below, zero - SP_LARGE));
            AT(energy + m + v * W) = x;
            sum[v % VECTORS] += x;
        }
    for (int v = 0; v < VECTORS; v++)
        AT(lane + v * W) = sum[v];
    return THIS(sp_total)(lane);
}

/* What numeric node s expects goes to the sums. */
TARGET ALWAYS_INLINE void THIS(sp_expect)(const sp_table *t, ptrdiff_t s, int tabled, ptrdiff_t there, double share,
                                          sp_sums *sums, const sp_scratch *k)
{
    const ptrdiff_t M = t->grid.width, p1 = t->rows.p1, tables = tabled ? t->J : 0;
    const double *restrict energy = k->grid + s * M;
    double *restrict visits = sums->node + s * M, *restrict table = sums->table + s * M;
    LANE q[TILE], sum[VECTORS];
    for (ptrdiff_t m = 0; m < M; m += SP_TILE) {
        for (int v = 0; v < TILE; v++) {
            q[v] = READ(energy + m + v * W) * share;
            AT(visits + m + v * W) += q[v];
        }
        for (ptrdiff_t j = 0; j < tables; j++) {
            double *restrict row = table + k->row[j] * p1 * M + m;
            for (int v = 0; v < TILE; v++)
                AT(row + v * W) += q[v];
        }
        for (ptrdiff_t j = 0; j < there; j++) {
            const double *restrict g = k->near + k->there[j] * M + m;
            double *restrict out = sums->near + (s * t->seen + k->there[j]) * SP_LANES;
            memset(sum, 0, sizeof sum);
            for (int v = 0; v < TILE; v++)
                sum[v % VECTORS] += q[v] * READ(g + v * W);
            for (int v = 0; v < VECTORS; v++)
                AT(out + v * W) += sum[v];
        }
    }
}

/* All numeric nodes of a row, step by step: the steps of one node wait for each other, those of different nodes do not. */
TARGET ALWAYS_INLINE void THIS(sp_numeric)(const sp_table *t, const sp_weights *w, ptrdiff_t there, sp_sums *sums,
                                           sp_scratch *k, double *product, double *log_sum)
{
    const ptrdiff_t M = t->grid.width, p1 = t->rows.p1;
    for (ptrdiff_t j = 0; j < there; j++)
        THIS(sp_similar)(&t->grid, k->x[p1 + k->there[j]], t->eps, k->near + k->there[j] * M);
    for (ptrdiff_t s = 0; s < p1; s++)
        if (k->x[s] == k->x[s])
            *log_sum += k->most[s] = THIS(sp_on_grid)(t, w, s, there, k);
    for (ptrdiff_t s = 0; s < p1; s++)
        if (k->x[s] == k->x[s])
            k->most[s] = THIS(sp_weigh)(M, k->grid + s * M, k->most[s]);
    for (ptrdiff_t s = 0; s < p1; s++)
        if (k->x[s] == k->x[s]) {
            THIS(sp_log)(product, log_sum, k->most[s]);
            THIS(sp_expect)(t, s, w->table != NULL, there, 1.0 / k->most[s], sums, k);
        }
}

/* Energies of some vectors of indicators from l on, less what is shifted later. */
TARGET ALWAYS_INLINE void THIS(sp_energies)(const sp_table *t, const sp_weights *w, ptrdiff_t l, const int vectors,
                                            ptrdiff_t there, const double *shown, sp_scratch *k)
{
    const ptrdiff_t L = t->plus.width;
    LANE x[SP_TOGETHER];
    for (int v = 0; v < vectors; v++)
        x[v] = READ(w->bias + l + v * W);
    for (ptrdiff_t j = 0; j < t->J; j++) {
        const double *restrict row = w->cell + k->row[j] * L + l;
        for (int v = 0; v < vectors; v++)
            x[v] += READ(row + v * W);
    }
    for (ptrdiff_t j = 0; j < there; j++) {
        const ptrdiff_t s = k->there[j];
        double size;
        const double *restrict sign = THIS(sp_side)(&t->plus, shown[s], t->eps, &size) + l;
        const double *restrict other = THIS(sp_side)(&t->minus, shown[s], t->eps, &size) + l;
        const double *restrict weight = w->lift + s * L + l, inverse = 1.0 / size;
        double *restrict lift = k->lift + s * L + l;
        for (int v = 0; v < vectors; v++) {
            const LANE up = READ(t->plus.size + l + v * W) * inverse, down = READ(t->plus.inverse + l + v * W) * size;
            const LANE high = READ(t->minus.size + l + v * W) * inverse, low = READ(t->minus.inverse + l + v * W) * size;
            const LANE g = SMALLER(up, down) * READ(sign + v * W) - SMALLER(high, low) * READ(other + v * W);
            AT(lift + v * W) = g;
            x[v] += g * READ(weight + v * W);
        }
    }
    for (int v = 0; v < vectors; v++)
        AT(k->energy + l + v * W) = x[v];
}

/* What is left of some vectors of indicators goes to the sums. */
TARGET ALWAYS_INLINE void THIS(sp_leave)(const sp_table *t, ptrdiff_t l, const int vectors, ptrdiff_t there, sp_sums *sums,
                                         const sp_scratch *k)
{
    const ptrdiff_t L = t->plus.width;
    LANE r[SP_TOGETHER];
    for (int v = 0; v < vectors; v++) {
        r[v] = READ(k->energy + l + v * W);
        AT(sums->bias + l + v * W) += r[v];
    }
    for (ptrdiff_t j = 0; j < t->J; j++) {
        double *restrict row = sums->cell + k->row[j] * L + l;
        for (int v = 0; v < vectors; v++)
            AT(row + v * W) += r[v];
    }
    for (ptrdiff_t j = 0; j < there; j++) {
        const double *restrict lift = k->lift + k->there[j] * L + l;
        double *restrict out = sums->lift + k->there[j] * L + l;
        for (int v = 0; v < vectors; v++)
            AT(out + v * W) += r[v] * READ(lift + v * W);
    }
}

/* All categorical nodes of a row. */
TARGET ALWAYS_INLINE void THIS(sp_categorical)(const sp_table *t, const sp_weights *w, ptrdiff_t i, sp_sums *sums, sp_scratch *k,
                                               double *product, double *log_sum)
{
    const ptrdiff_t L = t->plus.width;
    const double *shown = t->hat ? t->hat + i * (t->rows.p1 + t->p2) : k->x;
    double *restrict e = k->energy, *restrict shift = k->shift;
    ptrdiff_t there = 0, l = 0;
    for (ptrdiff_t s = 0; s < t->rows.p1; s++)
        if (k->x[s] == k->x[s])
            k->there[there++] = s;
    for (; l + SP_TOGETHER * W <= L; l += SP_TOGETHER * W)
        THIS(sp_energies)(t, w, l, SP_TOGETHER, there, shown, k);
    for (; l < L; l += W)
        THIS(sp_energies)(t, w, l, 1, there, shown, k);
    /* what is seen has energy 0: the indicator that is on, or the side of a lone indicator */
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        const ptrdiff_t start = t->first[v], stop = t->first[v + 1], hit = t->hit[k->cell[v]];
        const int together = t->softmax && stop - start > 1;
        const double own = together && hit >= 0 ? e[hit] : 0.0;
        for (l = start; l < stop; l++)
            shift[l] = own;
    }
    for (l = 0; l < L; l += W) {
        const LANE zero = {0}, x = AT(e + l) - AT(shift + l), cut = SMALLER(x, zero + SP_LARGE);
        AT(e + l) = THIS(sp_exp)(LARGER(cut, zero - SP_LARGE));
    }
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        const ptrdiff_t start = t->first[v], stop = t->first[v + 1], hit = t->hit[k->cell[v]];
        if (hit == SP_UNSEEN) {
            for (l = start; l < stop; l++)
                e[l] = 0.0;
        } else if (t->softmax && stop - start > 1) {
            double part[4] = {0};
            for (l = start; l + 4 <= stop; l += 4)
                for (int j = 0; j < 4; j++)
                    part[j] += e[l + j];
            for (; l < stop; l++)
                part[0] += e[l];
            const double z = (part[0] + part[2]) + (part[1] + part[3]), share = -1.0 / z;
            THIS(sp_log)(product, log_sum, z);
            for (l = start; l < stop; l++)
                e[l] *= share;
            e[hit] += 1.0;
        } else
            for (l = start; l < stop; l++) {
                const double odds = e[l], y = l == hit;
                THIS(sp_log)(product, log_sum, l == hit ? 1.0 + 1.0 / odds : 1.0 + odds);
                e[l] = y - odds / (1.0 + odds);
            }
    }
    for (l = 0; l + SP_TOGETHER * W <= L; l += SP_TOGETHER * W)
        THIS(sp_leave)(t, l, SP_TOGETHER, there, sums, k);
    for (; l < L; l += W)
        THIS(sp_leave)(t, l, 1, there, sums, k);
}

TARGET static void THIS(sp_rows)(const sp_table *t, const sp_weights *w, ptrdiff_t start, ptrdiff_t stop, sp_sums *sums,
                                 sp_scratch *k)
{
    double product = 1.0, log_sum = 0.0;
    for (ptrdiff_t l = t->p2; l < t->plus.width; l++)
        k->shift[l] = 0.0;
    for (ptrdiff_t i = start; i < stop; i++) {
        const ptrdiff_t there = sp_row(t, i, k);
        THIS(sp_numeric)(t, w, there, sums, k, &product, &log_sum);
        if (t->rows.P)
            THIS(sp_categorical)(t, w, i, sums, k, &product, &log_sum);
    }
    *sums->log_z += log_sum + log(product);
}

/* powers (p1, 3): how many, sum x, sum x^2; own (p1, p1 + p2): sums of the similarity of a row's own number to the number, or the code
 * of the indicator, that it sees */
TARGET static void THIS(sp_observe)(const sp_table *t, ptrdiff_t start, ptrdiff_t stop, double *powers, double *own, sp_scratch *k)
{
    const ptrdiff_t p = t->rows.p1 + t->p2;
    for (ptrdiff_t i = start; i < stop; i++) {
        const ptrdiff_t there = sp_row(t, i, k);
        for (ptrdiff_t s = 0; s < t->rows.p1; s++) {
            const double x = k->x[s], size = fabs(x) > t->eps ? fabs(x) : t->eps;
            double *on = k->lift, *restrict out = own + s * p;
            if (x != x)
                continue;
            powers[3 * s] += 1.0;
            powers[3 * s + 1] += x;
            powers[3 * s + 2] += x * x;
            for (ptrdiff_t j = 0; j < there; j++) {
                const double a = k->x[t->rows.p1 + k->there[j]], other = fabs(a) > t->eps ? fabs(a) : t->eps;
                const double ratio = size < other ? size / other : other / size;
                const int opposite = fabs(x) > t->eps && fabs(a) > t->eps && (x > 0.0) != (a > 0.0);
                out[k->there[j]] += opposite ? -ratio : ratio;
            }
            if (t->seen > t->rows.p1 || !t->rows.P)
                continue;
            THIS(sp_similar)(&t->minus, x, t->eps, k->energy);
            THIS(sp_similar)(&t->plus, x, t->eps, on);
            for (ptrdiff_t v = 0; v < t->rows.P; v++) {
                const ptrdiff_t hit = t->hit[k->cell[v]];
                for (ptrdiff_t l = t->first[v]; hit != SP_UNSEEN && l < t->first[v + 1]; l++)
                    out[t->rows.p1 + l] += l == hit ? on[l] : k->energy[l];
            }
        }
    }
}

#undef VECTORS
#undef TILE
#undef AT
#undef READ
