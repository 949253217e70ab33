/* One clone of the pass over the rows of _spectral.h, included once per instruction set by _lanes.h.
 *
 * Lanes hold nodes of the grid, or indicators; the neighbours of a row are processed one after the other.
 * Sums over lanes are kept in SP_LANES lanes whatever the width of a vector, so that all clones give the same
 * bits. */

#define VECTORS (SP_LANES / W)          /* of the lanes that sums are kept in */
#define TILE (SP_TILE / W)              /* of a tile of nodes, which stays in registers */
#define AT(pointer) (*(LANE *)(pointer))
#define READ(pointer) (*(const LANE *)(pointer))

#define LANE_EXP THIS(sp_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP

/* where the signs of a scale lie for x, and max(|x|, eps) */
static inline const double *THIS(sp_side)(const sp_scale *a, double x, double eps, double *size)
{
    *size = fabs(x) > eps ? fabs(x) : eps;
    return a->sign + (x < -eps ? 0 : x > eps ? 2 : 1) * a->stride;
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

/* the same of one entry */
static inline double THIS(sp_similar_one)(const sp_scale *a, ptrdiff_t j, double x, double eps)
{
    double size;
    const double *sign = THIS(sp_side)(a, x, eps, &size);
    const double up = a->size[j] * (1.0 / size), down = a->inverse[j] * size;
    return (up < down ? up : down) * sign[j];
}

/* ln of a product of many numbers >= 1: the logarithm is taken only when the product becomes too large */
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

/* Energies of numeric node s on some vectors of its nodes from m on, and the largest in every lane. */
TARGET ALWAYS_INLINE void THIS(sp_on_some)(const sp_table *t, const sp_weights *w, ptrdiff_t s, ptrdiff_t m,
                                           const int vectors, ptrdiff_t known, const sp_scratch *k,
                                           LANE *high)
{
    const ptrdiff_t M = t->M, p1 = t->rows.p1, tables = w->node_table ? t->J : 0;
    const double *restrict unary = w->unary + s * M + m, *restrict weights = w->pair + s * t->seen;
    double *restrict energy = k->grid + s * M + m;
    LANE e[TILE];
    for (int v = 0; v < vectors; v++)
        e[v] = READ(unary + v * W);
    for (ptrdiff_t j = 0; j < tables; j++) {
        const double *restrict row = w->node_table + (k->row[j] * p1 + s) * M + m;
        for (int v = 0; v < vectors; v++)
            e[v] += READ(row + v * W);
    }
    for (ptrdiff_t j = 0; j < known; j++) {
        const double *restrict g = k->similar[k->known[j]] + m, weight = weights[k->known[j]];
        if (k->known[j] == s)
            continue;
        for (int v = 0; v < vectors; v++)
            e[v] += READ(g + v * W) * weight;
    }
    for (int v = 0; v < vectors; v++) {
        high[v % VECTORS] = LARGER(e[v], high[v % VECTORS]);
        AT(energy + v * W) = e[v];
    }
}

/* Energies of numeric node s on all its nodes, and the largest. */
TARGET ALWAYS_INLINE double THIS(sp_on_grid)(const sp_table *t, const sp_weights *w, ptrdiff_t s,
                                             ptrdiff_t known, const sp_scratch *k)
{
    double lane[SP_LANES], largest = -INFINITY;
    LANE high[VECTORS];
    ptrdiff_t m = 0;
    for (int v = 0; v < VECTORS; v++)
        high[v] = (LANE){0} - INFINITY;
    for (; m + SP_TILE <= t->n_nodes[s]; m += SP_TILE)
        THIS(sp_on_some)(t, w, s, m, TILE, known, k, high);
    for (; m < t->n_nodes[s]; m += SP_LANES)
        THIS(sp_on_some)(t, w, s, m, VECTORS, known, k, high);
    for (int v = 0; v < VECTORS; v++)
        AT(lane + v * W) = high[v];
    for (int v = 0; v < SP_LANES; v++)
        largest = lane[v] > largest ? lane[v] : largest;
    return largest;
}

/* exp(energy - largest) of numeric node s, and their sum */
TARGET ALWAYS_INLINE double THIS(sp_weigh)(ptrdiff_t nodes, double *restrict energy, double largest)
{
    double lane[SP_LANES];
    LANE sum[VECTORS];
    memset(sum, 0, sizeof sum);
    for (ptrdiff_t m = 0; m < nodes; m += SP_LANES)
        for (int v = 0; v < VECTORS; v++) {
            const LANE zero = {0}, below = READ(energy + m + v * W) - largest,
                x = THIS(sp_exp)(LARGER(below, zero - SP_LARGE));
            AT(energy + m + v * W) = x;
            sum[v] += x;
        }
    for (int v = 0; v < VECTORS; v++)
        AT(lane + v * W) = sum[v];
    return simd_total(lane);
}

/* Add the expected statistics of numeric node s on some vectors of its nodes from m on to the sums. */
TARGET ALWAYS_INLINE void THIS(sp_expect_some)(const sp_table *t, ptrdiff_t s, ptrdiff_t m, const int vectors,
                                               int tabled, ptrdiff_t known, double share, sp_sums *sums,
                                               const sp_scratch *k)
{
    const ptrdiff_t M = t->M, p1 = t->rows.p1, tables = tabled ? t->J : 0;
    const double *restrict energy = k->grid + s * M + m;
    double *restrict visits = sums->node + s * M + m;
    LANE q[TILE], sum[VECTORS];
    for (int v = 0; v < vectors; v++)
        q[v] = READ(energy + v * W) * share;
    for (int v = 0; !tables && v < vectors; v++)
        AT(visits + v * W) += q[v];
    for (ptrdiff_t j = 0; j < tables; j++) {
        double *restrict row = sums->node_table + (k->row[j] * p1 + s) * M + m;
        for (int v = 0; v < vectors; v++)
            AT(row + v * W) += q[v];
    }
    for (ptrdiff_t j = 0; j < known; j++) {
        const double *restrict g = k->similar[k->known[j]] + m;
        double *restrict out = sums->pair + (s * t->seen + k->known[j]) * SP_LANES;
        if (k->known[j] == s)
            continue;
        memset(sum, 0, sizeof sum);
        for (int v = 0; v < vectors; v++)
            sum[v % VECTORS] += q[v] * READ(g + v * W);
        for (int v = 0; v < VECTORS; v++)
            AT(out + v * W) += sum[v];
    }
}

/* The same on all its nodes. */
TARGET ALWAYS_INLINE void THIS(sp_expect)(const sp_table *t, ptrdiff_t s, int tabled, ptrdiff_t known,
                                          double share, sp_sums *sums, const sp_scratch *k)
{
    ptrdiff_t m = 0;
    for (; m + SP_TILE <= t->n_nodes[s]; m += SP_TILE)
        THIS(sp_expect_some)(t, s, m, TILE, tabled, known, share, sums, k);
    for (; m < t->n_nodes[s]; m += SP_LANES)
        THIS(sp_expect_some)(t, s, m, VECTORS, tabled, known, share, sums, k);
}

/* similarities of n nodes of the grid to the known numbers of a row */
TARGET ALWAYS_INLINE void THIS(sp_pairs)(const sp_table *t, ptrdiff_t first, ptrdiff_t n, ptrdiff_t known,
                                         sp_scratch *k)
{
    sp_scale nodes = t->grid;
    nodes.size += first;
    nodes.inverse += first;
    nodes.sign += first;
    nodes.width = n;
    for (ptrdiff_t j = 0; j < known; j++) {
        const ptrdiff_t s = k->known[j];
        const double x = k->x[t->rows.p1 + s];
        if (t->slots) {
            const ptrdiff_t slot = s * t->slots + sp_slot(x, t->slots);
            double *row = k->pair + slot * t->grid.width;
            if (k->pair_number[slot] != x)
                THIS(sp_similar)(&t->grid, x, t->eps, row);
            k->pair_number[slot] = x;
            k->similar[s] = row + first;
        } else {
            THIS(sp_similar)(&nodes, x, t->eps, k->pair + s * t->M);
            k->similar[s] = k->pair + s * t->M;
        }
    }
}

/* All numeric nodes of a row. Columns that share their nodes run stage by stage: stages of one node depend on
 * each other, stages of different nodes do not. */
TARGET ALWAYS_INLINE void THIS(sp_numeric)(const sp_table *t, const sp_weights *w, ptrdiff_t known,
                                           sp_sums *sums, sp_scratch *k, double *product, double *log_sum)
{
    const ptrdiff_t M = t->M, p1 = t->rows.p1;
    if (t->shared)
        THIS(sp_pairs)(t, 0, t->shared, known, k);
    for (ptrdiff_t s = 0; s < p1; s++)
        if (!t->first_node[s] && k->x[s] == k->x[s])
            *log_sum += k->largest[s] = THIS(sp_on_grid)(t, w, s, known, k);
    for (ptrdiff_t s = 0; s < p1; s++)
        if (!t->first_node[s] && k->x[s] == k->x[s])
            k->largest[s] = THIS(sp_weigh)(t->n_nodes[s], k->grid + s * M, k->largest[s]);
    for (ptrdiff_t s = 0; s < p1; s++)
        if (!t->first_node[s] && k->x[s] == k->x[s]) {
            THIS(sp_log)(product, log_sum, k->largest[s]);
            THIS(sp_expect)(t, s, w->node_table != NULL, known, 1.0 / k->largest[s], sums, k);
        }
    for (ptrdiff_t s = 0; s < p1; s++)
        if (t->first_node[s] && k->x[s] == k->x[s]) {
            const ptrdiff_t n = t->n_nodes[s];
            THIS(sp_pairs)(t, t->first_node[s], n, known, k);
            const double largest = THIS(sp_on_grid)(t, w, s, known, k),
                z = THIS(sp_weigh)(n, k->grid + s * M, largest);
            *log_sum += largest;
            THIS(sp_log)(product, log_sum, z);
            THIS(sp_expect)(t, s, w->node_table != NULL, known, 1.0 / z, sums, k);
        }
}

/* out = changes of the similarity of x to the indicators when they are switched on */
TARGET static inline void THIS(sp_switched)(const sp_table *t, double x, double *restrict out)
{
    double size;
    const double *restrict sign = THIS(sp_side)(&t->plus, x, t->eps, &size),
        *restrict other = THIS(sp_side)(&t->minus, x, t->eps, &size);
    const double inverse = 1.0 / size;
    for (ptrdiff_t l = 0; l < t->plus.width; l += W) {
        const LANE up = READ(t->plus.size + l) * inverse, down = READ(t->plus.inverse + l) * size;
        const LANE high = READ(t->minus.size + l) * inverse, low = READ(t->minus.inverse + l) * size;
        AT(out + l) = SMALLER(up, down) * READ(sign + l) - SMALLER(high, low) * READ(other + l);
    }
}

/* those of the known numbers `shown` of a row */
TARGET ALWAYS_INLINE void THIS(sp_changes)(const sp_table *t, ptrdiff_t known, const double *shown,
                                           sp_scratch *k)
{
    for (ptrdiff_t j = 0; j < known; j++) {
        const ptrdiff_t s = k->known[j], slot = t->slots ? s * t->slots + sp_slot(shown[s], t->slots) : s;
        double *row = k->cross + slot * t->plus.width;
        if (!t->slots || k->cross_number[slot] != shown[s])
            THIS(sp_switched)(t, shown[s], row);
        if (t->slots)
            k->cross_number[slot] = shown[s];
        k->change[s] = row;
    }
}

/* Energies of some vectors of indicators from l on, before the shift. */
TARGET ALWAYS_INLINE void THIS(sp_energies)(const sp_table *t, const sp_weights *w, ptrdiff_t l,
                                            const int vectors, ptrdiff_t known, sp_scratch *k)
{
    const ptrdiff_t L = t->plus.width;
    LANE x[SP_TOGETHER];
    for (int v = 0; v < vectors; v++)
        x[v] = READ(w->bias + l + v * W);
    for (ptrdiff_t j = 0; j < t->J; j++) {
        const double *restrict row = w->bias_table + k->row[j] * L + l;
        for (int v = 0; v < vectors; v++)
            x[v] += READ(row + v * W);
    }
    for (ptrdiff_t j = 0; j < known; j++) {
        const double *restrict weight = w->cross + k->known[j] * L + l,
            *restrict change = k->change[k->known[j]] + l;
        for (int v = 0; v < vectors; v++)
            x[v] += READ(change + v * W) * READ(weight + v * W);
    }
    for (int v = 0; v < vectors; v++)
        AT(k->energy + l + v * W) = x[v];
}

/* Add the residuals of some vectors of indicators to the sums. */
TARGET ALWAYS_INLINE void THIS(sp_leave)(const sp_table *t, ptrdiff_t l, const int vectors, ptrdiff_t known,
                                         sp_sums *sums, const sp_scratch *k)
{
    const ptrdiff_t L = t->plus.width;
    LANE r[SP_TOGETHER];
    for (int v = 0; v < vectors; v++)
        r[v] = READ(k->energy + l + v * W);
    for (ptrdiff_t j = 0; j < t->J; j++) {
        double *restrict row = sums->bias_table + k->row[j] * L + l;
        for (int v = 0; v < vectors; v++)
            AT(row + v * W) += r[v];
    }
    for (ptrdiff_t j = 0; j < known; j++) {
        const double *restrict change = k->change[k->known[j]] + l;
        double *restrict out = sums->cross + k->known[j] * L + l;
        for (int v = 0; v < vectors; v++)
            AT(out + v * W) += r[v] * READ(change + v * W);
    }
}

/* All categorical variables of a row. */
TARGET ALWAYS_INLINE void THIS(sp_categorical)(const sp_table *t, const sp_weights *w, ptrdiff_t i,
                                               sp_sums *sums, sp_scratch *k, double *product, double *log_sum)
{
    const ptrdiff_t L = t->plus.width;
    const double *shown = t->low_rank ? t->low_rank + i * (t->rows.p1 + t->p2) : k->x;
    double *restrict e = k->energy, *restrict shift = k->shift;
    ptrdiff_t known = 0, l = 0;
    for (ptrdiff_t s = 0; s < t->rows.p1; s++)
        if (k->x[s] == k->x[s])
            k->known[known++] = s;
    THIS(sp_changes)(t, known, shown, k);
    for (; l + SP_TOGETHER * W <= L; l += SP_TOGETHER * W)
        THIS(sp_energies)(t, w, l, SP_TOGETHER, known, k);
    for (; l < L; l += W)
        THIS(sp_energies)(t, w, l, 1, known, k);
    /* energies relative to the observed state: the indicator that is on, or the side of a single indicator */
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        const ptrdiff_t start = t->first[v], stop = t->first[v + 1], indicator = t->indicator[k->state[v]];
        const int together = t->softmax && stop - start > 1;
        const double own = together && indicator >= 0 ? e[indicator] : 0.0;
        for (l = start; l < stop; l++)
            shift[l] = own;
    }
    for (l = 0; l < L; l += W) {
        const LANE zero = {0}, x = AT(e + l) - AT(shift + l), cut = SMALLER(x, zero + SP_LARGE);
        AT(e + l) = THIS(sp_exp)(LARGER(cut, zero - SP_LARGE));
    }
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        const ptrdiff_t start = t->first[v], stop = t->first[v + 1], indicator = t->indicator[k->state[v]];
        if (indicator == SP_MISSING) {
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
            e[indicator] += 1.0;
        } else
            for (l = start; l < stop; l++) {
                const double odds = e[l], y = l == indicator;
                THIS(sp_log)(product, log_sum, l == indicator ? 1.0 + 1.0 / odds : 1.0 + odds);
                e[l] = y - odds / (1.0 + odds);
            }
    }
    for (l = 0; l + SP_TOGETHER * W <= L; l += SP_TOGETHER * W)
        THIS(sp_leave)(t, l, SP_TOGETHER, known, sums, k);
    for (; l < L; l += W)
        THIS(sp_leave)(t, l, 1, known, sums, k);
}

TARGET static void THIS(sp_rows)(const sp_table *t, const sp_weights *w, ptrdiff_t start, ptrdiff_t stop,
                                 sp_sums *sums, sp_scratch *k)
{
    double product = 1.0, log_sum = 0.0;
    for (ptrdiff_t l = t->p2; l < t->plus.width; l++)
        k->shift[l] = 0.0;
    for (ptrdiff_t i = start; i < stop; i++) {
        const ptrdiff_t known = sp_row(t, i, k);
        THIS(sp_numeric)(t, w, known, sums, k, &product, &log_sum);
        if (t->rows.P)
            THIS(sp_categorical)(t, w, i, sums, k, &product, &log_sum);
    }
    *sums->log_z += log_sum + log(product);
}

/* powers (p1, 3): count, sum x, sum x^2; own (p1, p1 + p2): sums of the similarity of a row's own number to
 * the number, or the code of the indicator, that it sees */
TARGET static void THIS(sp_observe)(const sp_table *t, ptrdiff_t start, ptrdiff_t stop, double *powers,
                                    double *own, sp_scratch *k)
{
    const ptrdiff_t p = t->rows.p1 + t->p2;
    for (ptrdiff_t i = start; i < stop; i++) {
        const ptrdiff_t known = sp_row(t, i, k);
        for (ptrdiff_t s = 0; s < t->rows.p1; s++) {
            const double x = k->x[s], size = fabs(x) > t->eps ? fabs(x) : t->eps;
            double *restrict codes = k->energy, *restrict out = own + s * p;
            if (x != x)
                continue;
            powers[3 * s] += 1.0;
            powers[3 * s + 1] += x;
            powers[3 * s + 2] += x * x;
            for (ptrdiff_t j = 0; j < known; j++) {
                const double a = k->x[t->rows.p1 + k->known[j]], other = fabs(a) > t->eps ? fabs(a) : t->eps;
                const double ratio = size < other ? size / other : other / size;
                const int opposite = fabs(x) > t->eps && fabs(a) > t->eps && (x > 0.0) != (a > 0.0);
                out[k->known[j]] += opposite ? -ratio : ratio;
            }
            if (t->seen > t->rows.p1 || !t->rows.P)
                continue;
            THIS(sp_similar)(&t->minus, x, t->eps, codes);
            for (ptrdiff_t v = 0; v < t->rows.P; v++) {
                const ptrdiff_t indicator = t->indicator[k->state[v]];
                if (indicator == SP_MISSING)
                    memset(codes + t->first[v], 0, sizeof(double) * (t->first[v + 1] - t->first[v]));
                else if (indicator >= 0)
                    codes[indicator] = THIS(sp_similar_one)(&t->plus, indicator, x, t->eps);
            }
            out += t->rows.p1;
            for (ptrdiff_t l = 0; l < t->p2; l++)
                out[l] += codes[l];
        }
    }
}

TARGET static void THIS(sp_combine)(const sp_table *t, const sp_terms *c, ptrdiff_t s, const double *weight,
                                    double *restrict known, double *restrict out)
{
    const ptrdiff_t p1 = t->rows.p1, P = t->rows.P, M = t->M, width = t->grid.width;
    for (ptrdiff_t v = 0; v < P; v++)
        for (ptrdiff_t m = 0; m < t->n_nodes[s]; m += W) {
            LANE sum = {0};
            for (ptrdiff_t l = t->first[v]; l < t->first[v + 1]; l++)
                sum += weight[s * t->p2 + l] * READ(c->off + l * width + t->first_node[s] + m);
            AT(known + v * M + m) = sum;
        }
    for (ptrdiff_t r = 0; r < t->R; r++)
        for (ptrdiff_t m = 0; m < t->n_nodes[s]; m += W) {
            LANE sum = {0};
            for (ptrdiff_t i = c->start[r]; i < c->start[r + 1]; i++) {
                const ptrdiff_t v = c->term[i], l = v - P;
                if (l < 0)
                    sum += READ(known + v * M + m);
                else
                    sum += weight[s * t->p2 + l] * READ(c->rise + l * width + t->first_node[s] + m);
            }
            AT(out + (r * p1 + s) * M + m) = sum;
        }
}

/* Add the products of n doubles of a and b to SP_LANES lanes. */
TARGET ALWAYS_INLINE void THIS(sp_product)(const double *restrict a, const double *restrict b, ptrdiff_t n,
                                           double *restrict lanes)
{
    LANE sum[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        sum[v] = READ(lanes + v * W);
    for (ptrdiff_t m = 0; m < n; m += SP_LANES)
        for (int v = 0; v < VECTORS; v++)
            sum[v] += READ(a + m + v * W) * READ(b + m + v * W);
    for (int v = 0; v < VECTORS; v++)
        AT(lanes + v * W) = sum[v];
}

TARGET static void THIS(sp_visited)(const sp_table *t, const sp_terms *c, ptrdiff_t s, const double *visits,
                                    double *restrict known, double *restrict lanes)
{
    const ptrdiff_t p1 = t->rows.p1, P = t->rows.P, M = t->M, width = t->grid.width;
    for (ptrdiff_t r = 0; r < t->R; r++) {
        const double *restrict visit = visits + (r * p1 + s) * M;
        for (ptrdiff_t i = c->start[r]; i < c->start[r + 1]; i++) {
            const ptrdiff_t v = c->term[i], l = v - P;
            double *restrict sum = known + v * M;
            if (l >= 0)
                THIS(sp_product)(visit, c->rise + l * width + t->first_node[s], t->n_nodes[s],
                                 lanes + (s * t->p2 + l) * SP_LANES);
            else
                for (ptrdiff_t m = 0; m < t->n_nodes[s]; m += W)
                    AT(sum + m) += READ(visit + m);
        }
    }
    for (ptrdiff_t v = 0; v < P; v++)
        for (ptrdiff_t l = t->first[v]; l < t->first[v + 1]; l++)
            THIS(sp_product)(known + v * M, c->off + l * width + t->first_node[s], t->n_nodes[s],
                             lanes + (s * t->p2 + l) * SP_LANES);
}

#undef VECTORS
#undef TILE
#undef AT
#undef READ
