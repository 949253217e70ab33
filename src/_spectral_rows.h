/* One clone of the pass over the rows of _spectral.h, for vectors of SP_WIDTH doubles. Included once per instruction set.
 *
 * Nodes of the grid, and indicators, lie side by side in the lanes; a row's neighbours come one after the other. Sums over lanes are kept
 * in SP_LANES of them whatever the width of a vector, so that all clones give the same bits. */

#define THIS(stem) SIMD_NAME(stem, SP_SUFFIX)
#if defined(__GNUC__)
#define W SP_WIDTH
typedef double THIS(sp_lane) __attribute__((vector_size(8 * SP_WIDTH), aligned(8), may_alias));
typedef int64_t THIS(sp_bits) __attribute__((vector_size(8 * SP_WIDTH), aligned(8), may_alias));
#define LARGER(a, b) ((LANE)((((a) > (b)) & (BITS)(a)) | (~((a) > (b)) & (BITS)(b))))
#define SMALLER(a, b) ((LANE)((((a) < (b)) & (BITS)(a)) | (~((a) < (b)) & (BITS)(b))))
#else
#define W 1
typedef double THIS(sp_lane);
typedef int64_t THIS(sp_bits);
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#endif
#define LANE THIS(sp_lane)
#define BITS THIS(sp_bits)
#define VECTORS (SP_LANES / W)
#define AT(pointer) (*(LANE *)(pointer))
#define READ(pointer) (*(const LANE *)(pointer))

#include "_lane_exp.h"

/* where the signs of a scale lie for x, and max(|x|, eps) */
static inline const double *THIS(sp_side)(const sp_scale *a, double x, double eps, double *size)
{
    *size = fabs(x) > eps ? fabs(x) : eps;
    return a->sign + (x < -eps ? 0 : x > eps ? 2 : 1) * a->width;
}

/* out = similarities of x to a scale */
LANE_ATTRIBUTE static inline void THIS(sp_similar)(const sp_scale *a, double x, double eps, double *restrict out)
{
    double size;
    const double *restrict sign = THIS(sp_side)(a, x, eps, &size);
    const double inverse = 1.0 / size;
    for (ptrdiff_t j = 0; j < a->width; j += W) {
        const LANE up = READ(a->size + j) * inverse, down = READ(a->inverse + j) * size;
        AT(out + j) = SMALLER(up, down) * READ(sign + j);
    }
}

/* out = what switching the indicators on adds to the similarities of x to their codes */
LANE_ATTRIBUTE static inline void THIS(sp_lift)(const sp_scale *on, const sp_scale *off, double x, double eps, double *restrict out)
{
    double size;
    const double *restrict sign = THIS(sp_side)(on, x, eps, &size), *restrict other = THIS(sp_side)(off, x, eps, &size);
    const double inverse = 1.0 / size;
    for (ptrdiff_t j = 0; j < on->width; j += W) {
        const LANE up = READ(on->size + j) * inverse, down = READ(on->inverse + j) * size, g = SMALLER(up, down) * READ(sign + j);
        const LANE high = READ(off->size + j) * inverse, low = READ(off->inverse + j) * size;
        AT(out + j) = g - SMALLER(high, low) * READ(other + j);
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

/* Node s of a row: the probabilities of the nodes of the grid, and what they add to the sums. Returns Z, *shift is taken out of it. */
LANE_ATTRIBUTE static inline double THIS(sp_numeric)(const sp_table *t, const sp_weights *w, ptrdiff_t s, ptrdiff_t there, sp_sums *sums,
                                                     sp_scratch *k, double *shift)
{
    const ptrdiff_t M = t->grid.width;
    const double *restrict unary = w->unary + s * M, *restrict near = w->near + s * t->seen;
    const double *restrict table = w->table ? w->table + s * t->rows.C * M : NULL;
    double *restrict e = k->energy, lane[SP_LANES], most = -INFINITY;
    LANE high[VECTORS], sum[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        high[v] = READ(unary + v * W);
    for (ptrdiff_t m = 0; m < M; m += SP_LANES)
        for (int v = 0; v < VECTORS; v++) {
            const ptrdiff_t at = m + v * W;
            LANE x = READ(unary + at), y = {0};
            for (ptrdiff_t j = 0; table && j < t->rows.P; j++)
                x += READ(table + k->cell[j] * M + at);
            for (ptrdiff_t j = 0; j < there; j++)
                y += READ(k->near + k->there[j] * M + at) * near[k->there[j]];
            x += y;
            AT(e + at) = x;
            high[v] = LARGER(x, high[v]);
        }
    for (int v = 0; v < VECTORS; v++)
        AT(lane + v * W) = high[v];
    for (int v = 0; v < SP_LANES; v++)
        most = lane[v] > most ? lane[v] : most;
    memset(sum, 0, sizeof sum);
    for (ptrdiff_t m = 0; m < M; m += SP_LANES)
        for (int v = 0; v < VECTORS; v++) {
            const LANE low = {0}, below = AT(e + m + v * W) - most, x = THIS(lane_exp)(LARGER(below, low - SP_LARGE));
            AT(e + m + v * W) = x;
            sum[v] += x;
        }
    for (int v = 0; v < VECTORS; v++)
        AT(lane + v * W) = sum[v];
    const double z = THIS(sp_total)(lane), share = 1.0 / z;
    double *restrict visits = sums->node + s * M, *restrict by_cell = sums->table + s * t->rows.C * M;
    for (ptrdiff_t m = 0; m < M; m += W) {
        const LANE q = AT(e + m) * share;
        AT(e + m) = q;
        AT(visits + m) += q;
        for (ptrdiff_t j = 0; table && j < t->rows.P; j++)
            AT(by_cell + k->cell[j] * M + m) += q;
    }
    for (ptrdiff_t j = 0; j < there; j++) {
        const double *restrict g = k->near + k->there[j] * M;
        double *restrict out = sums->near + (s * t->seen + k->there[j]) * SP_LANES;
        memset(sum, 0, sizeof sum);
        for (ptrdiff_t m = 0; m < M; m += SP_LANES)
            for (int v = 0; v < VECTORS; v++)
                sum[v] += AT(e + m + v * W) * READ(g + m + v * W);
        for (int v = 0; v < VECTORS; v++)
            AT(out + v * W) += sum[v];
    }
    *shift = most;
    return z;
}

/* All categorical nodes of a row. */
LANE_ATTRIBUTE static inline void THIS(sp_categorical)(const sp_table *t, const sp_weights *w, ptrdiff_t i, sp_sums *sums, sp_scratch *k,
                                                       double *product, double *log_sum)
{
    const ptrdiff_t L = t->plus.width;
    const double *shown = t->hat ? t->hat + i * (t->rows.p1 + t->p2) : k->x;
    double *restrict e = k->energy, *restrict shift = k->shift;
    ptrdiff_t there = 0;
    for (ptrdiff_t s = 0; s < t->rows.p1; s++)
        if (k->x[s] == k->x[s]) {
            k->there[there++] = s;
            THIS(sp_lift)(&t->plus, &t->minus, shown[s], t->eps, k->lift + s * L);
        }
    for (ptrdiff_t l = 0; l < L; l += W) {
        LANE x = READ(w->bias + l), y = {0};
        for (ptrdiff_t v = 0; v < t->rows.P; v++)
            x += READ(w->cell + k->cell[v] * L + l);
        for (ptrdiff_t j = 0; j < there; j++)
            y += READ(k->lift + k->there[j] * L + l) * READ(w->lift + k->there[j] * L + l);
        AT(e + l) = x + y;
    }
    /* what is seen has energy 0: the indicator that is on, or the side of a lone indicator */
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        const ptrdiff_t start = t->first[v], stop = t->first[v + 1], hit = t->hit[k->cell[v]];
        const int together = t->softmax && stop - start > 1;
        const double own = together && hit >= 0 ? e[hit] : 0.0;
        for (ptrdiff_t l = start; l < stop; l++)
            shift[l] = own;
    }
    for (ptrdiff_t l = 0; l < L; l += W) {
        const LANE zero = {0}, x = AT(e + l) - AT(shift + l), cut = SMALLER(x, zero + SP_LARGE);
        AT(e + l) = THIS(lane_exp)(LARGER(cut, zero - SP_LARGE));
    }
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        const ptrdiff_t start = t->first[v], stop = t->first[v + 1], hit = t->hit[k->cell[v]];
        if (hit == SP_UNSEEN) {
            for (ptrdiff_t l = start; l < stop; l++)
                e[l] = 0.0;
        } else if (t->softmax && stop - start > 1) {
            double part[4] = {0};
            ptrdiff_t l = start;
            for (; l + 4 <= stop; l += 4)
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
            for (ptrdiff_t l = start; l < stop; l++) {
                const double odds = e[l], y = l == hit;
                THIS(sp_log)(product, log_sum, l == hit ? 1.0 + 1.0 / odds : 1.0 + odds);
                e[l] = y - odds / (1.0 + odds);
            }
    }
    for (ptrdiff_t l = 0; l < L; l += W) {
        const LANE r = AT(e + l);
        AT(sums->bias + l) += r;
        for (ptrdiff_t v = 0; v < t->rows.P; v++)
            AT(sums->cell + k->cell[v] * L + l) += r;
        for (ptrdiff_t j = 0; j < there; j++)
            AT(sums->lift + k->there[j] * L + l) += r * READ(k->lift + k->there[j] * L + l);
    }
}

LANE_ATTRIBUTE static void THIS(sp_rows)(const sp_table *t, const sp_weights *w, ptrdiff_t start, ptrdiff_t stop, sp_sums *sums,
                                         sp_scratch *k)
{
    const ptrdiff_t M = t->grid.width;
    double product = 1.0, log_sum = 0.0, shift;
    for (ptrdiff_t l = t->p2; l < t->plus.width; l++)
        k->shift[l] = 0.0;
    for (ptrdiff_t i = start; i < stop; i++) {
        const ptrdiff_t there = sp_row(t, i, k);
        for (ptrdiff_t j = 0; j < there; j++)
            THIS(sp_similar)(&t->grid, k->x[t->rows.p1 + k->there[j]], t->eps, k->near + k->there[j] * M);
        for (ptrdiff_t s = 0; s < t->rows.p1; s++)
            if (k->x[s] == k->x[s]) {
                const double z = THIS(sp_numeric)(t, w, s, there, sums, k, &shift);
                log_sum += shift;
                THIS(sp_log)(&product, &log_sum, z);
            }
        if (t->rows.P)
            THIS(sp_categorical)(t, w, i, sums, k, &product, &log_sum);
    }
    *sums->log_z += log_sum + log(product);
}

/* powers (p1, 3): how many, sum x, sum x^2; own (p1, p1 + p2): sums of the similarity of a row's own number to the number, or the code
 * of the indicator, that it sees */
LANE_ATTRIBUTE static void THIS(sp_observe)(const sp_table *t, ptrdiff_t start, ptrdiff_t stop, double *powers, double *own, sp_scratch *k)
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

#undef THIS
#undef W
#undef LANE
#undef BITS
#undef LARGER
#undef SMALLER
#undef VECTORS
#undef AT
#undef READ
#undef LANE_ATTRIBUTE
#undef SP_WIDTH
#undef SP_SUFFIX
