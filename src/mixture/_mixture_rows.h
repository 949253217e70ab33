/* The E-step over rows of _mixture.h, included once per instruction set by _lanes.h.
 *
 * Responsibilities: the lanes are rows, and the selected columns of a component are added one after the
 * other, so a column that no component selects costs nothing. Sums: the lanes are columns, and the rows of a
 * component are added one after the other, without those of responsibility zero. Both add in an order that
 * does not depend on the width of a vector. */

#define VECTORS (MX_TILE / W)
#define TOGETHER 4              /* vectors of columns whose sums stay in registers */
#define AHEAD 4                 /* rows */

#define LANE_EXP THIS(mx_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP
#define LANE_LOG THIS(mx_log)
#include "common/_lane_log.h"
#undef LANE_LOG

/* the cells of row i, centred and scaled, missing ones 0 */
#define ROW(type)                                                                                      \
TARGET static inline void THIS(mx_row_##type)(const mx_table *t, const type *x, double *restrict z)    \
{                                                                                                      \
    const double *restrict centre = t->centre, *restrict scale = t->scale;                             \
    const ptrdiff_t D = t->D;                                                                          \
    if (t->all)                                                                                        \
        for (ptrdiff_t d = 0; d < D; d++)                                                              \
            z[d] = ((double)x[d] - centre[d]) * scale[d];                                              \
    else                                                                                               \
        for (ptrdiff_t d = 0; d < D; d++)                                                              \
            z[d] = ((double)x[t->column[d]] - centre[d]) * scale[d];                                   \
}
ROW(float)
ROW(double)
#undef ROW

/* rows [start, start + n), to z; lists their missing cells, which become 0, and returns how many there are */
TARGET static ptrdiff_t THIS(mx_load)(const mx_table *t, ptrdiff_t start, ptrdiff_t n, double *to,
                                      int64_t *missing)
{
    ptrdiff_t n_missing = 0;
    const ptrdiff_t bytes = t->width * (t->single ? 4 : 8);
    for (ptrdiff_t r = 0; r < n; r++) {
        double *restrict z = to + r * t->stride;
        const ptrdiff_t at = mx_place(t, start + r) * t->width;
        if (t->order && r + AHEAD < n) /* no prefetcher of the processor follows the order */
            for (ptrdiff_t line = 0; line < bytes; line += 64)
                SIMD_PREFETCH((const char *)t->X + t->order[start + r + AHEAD] * bytes + line);
        if (t->single)
            THIS(mx_row_float)(t, (const float *)t->X + at, z);
        else
            THIS(mx_row_double)(t, (const double *)t->X + at, z);
        for (ptrdiff_t d = 0; t->missing && d < t->D; d++)
            if (z[d] != z[d]) {
                z[d] = 0.0;
                missing[n_missing++] = r * t->D + d;
            }
    }
    return n_missing;
}

TARGET static void THIS(mx_keep)(const mx_table *t, ptrdiff_t n, double *z)
{
    THIS(mx_load)(t, 0, n, z, NULL);
}

/* tile (columns, MX_TILE) of up to MX_TILE rows of z; columns are a multiple of MX_PAD */
TARGET static void THIS(mx_transpose)(const double *z, ptrdiff_t n, ptrdiff_t stride, ptrdiff_t columns,
                                      double *restrict tile)
{
    if (n < MX_TILE)
        memset(tile, 0, sizeof(double) * MX_TILE * (size_t)columns);
#if CRAFTC_CLONES && W == 8
    for (ptrdiff_t from = 0; n == MX_TILE && from < MX_TILE; from += 8)
        for (ptrdiff_t d = 0; d < columns; d += 8) {
            __m512d a[8], b[8];
            for (int i = 0; i < 8; i++)
                a[i] = _mm512_loadu_pd(z + (from + i) * stride + d);
            for (int i = 0; i < 8; i += 2) {
                b[i] = _mm512_unpacklo_pd(a[i], a[i + 1]);
                b[i + 1] = _mm512_unpackhi_pd(a[i], a[i + 1]);
            }
            for (int i = 0; i < 2; i++)
                for (int half = 0; half < 2; half++) {
                    a[i + 4 * half] = _mm512_shuffle_f64x2(b[4 * half + i], b[4 * half + i + 2], 0x88);
                    a[i + 4 * half + 2] = _mm512_shuffle_f64x2(b[4 * half + i], b[4 * half + i + 2], 0xdd);
                }
            for (int i = 0; i < 4; i++) {
                _mm512_storeu_pd(tile + (d + i) * MX_TILE + from, _mm512_shuffle_f64x2(a[i], a[i + 4], 0x88));
                _mm512_storeu_pd(tile + (d + i + 4) * MX_TILE + from,
                                 _mm512_shuffle_f64x2(a[i], a[i + 4], 0xdd));
            }
        }
    if (n == MX_TILE)
        return;
#elif CRAFTC_CLONES && W == 4
    for (ptrdiff_t from = 0; n == MX_TILE && from < MX_TILE; from += 4)
        for (ptrdiff_t d = 0; d < columns; d += 2) {
            const double *x = z + from * stride + d;
            const __m256d even = _mm256_set_m128d(_mm_loadu_pd(x + 2 * stride), _mm_loadu_pd(x));
            const __m256d odd = _mm256_set_m128d(_mm_loadu_pd(x + 3 * stride), _mm_loadu_pd(x + stride));
            _mm256_storeu_pd(tile + d * MX_TILE + from, _mm256_unpacklo_pd(even, odd));
            _mm256_storeu_pd(tile + (d + 1) * MX_TILE + from, _mm256_unpackhi_pd(even, odd));
        }
    if (n == MX_TILE)
        return;
#endif
    for (ptrdiff_t d = 0; d < columns; d++)
        for (ptrdiff_t r = 0; r < n; r++)
            tile[d * MX_TILE + r] = z[r * stride + d];
}

/* out += scores of the rows of a tile under one component in a run of columns, whose list entries are [i,
 * stop) */
TARGET static inline void THIS(mx_add_scores)(const mx_lists *l, ptrdiff_t i, ptrdiff_t stop, int linear,
                                              const double *tile, double *out)
{
    LANE even[VECTORS], odd[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        even[v] = odd[v] = ALL(LANE, 0.0);
    if (linear) {
        for (; i + 1 < stop; i += 2) {
            const double *x = tile + l->place[i], *y = tile + l->place[i + 1];
            for (int v = 0; v < VECTORS; v++) {
                even[v] += *(const LANE *)(x + v * W) * l->linear[i];
                odd[v] += *(const LANE *)(y + v * W) * l->linear[i + 1];
            }
        }
        for (int v = 0; i < stop && v < VECTORS; v++)
            even[v] += *(const LANE *)(tile + l->place[i] + v * W) * l->linear[i];
    } else {
        for (; i + 1 < stop; i += 2) {
            const double *x = tile + l->place[i], *y = tile + l->place[i + 1];
            for (int v = 0; v < VECTORS; v++) {
                LANE a = *(const LANE *)(x + v * W), b = *(const LANE *)(y + v * W);
                MX_HOLD(a);
                MX_HOLD(b);
                even[v] += (a * l->square[i] + l->linear[i]) * a;
                odd[v] += (b * l->square[i + 1] + l->linear[i + 1]) * b;
            }
        }
        for (int v = 0; i < stop && v < VECTORS; v++) {
            const LANE a = *(const LANE *)(tile + l->place[i] + v * W);
            even[v] += (a * l->square[i] + l->linear[i]) * a;
        }
    }
    for (int v = 0; v < VECTORS; v++)
        *(LANE *)(out + v * W) += even[v] + odd[v];
}

/* Indices of the components with the largest and the second largest score r (K, MX_TILE; rows of components
 * `room` apart), the first of equal ones; hard: the responsibility of the best becomes 1, that of the others
 * 0. */
TARGET static void THIS(mx_best)(double *r, ptrdiff_t K, ptrdiff_t room, int hard, double *best,
                                 double *second)
{
    const LANE one = ALL(LANE, 1.0);
    for (int v = 0; v < VECTORS; v++) {
        LANE high = *(LANE *)(r + v * W), next = ALL(LANE, -INFINITY), found = ALL(LANE, 0.0),
            runner_up = found;
        for (ptrdiff_t k = 1; k < K; k++) {
            const LANE x = *(LANE *)(r + k * room + v * W), here = ALL(LANE, (double)k);
            runner_up = PICK(x > high, found) + PICK(x <= high, LARGER(PICK(x > next, here), runner_up));
            next = LARGER(SMALLER(x, high), next);
            found = LARGER(PICK(x > high, here), found);
            high = LARGER(x, high);
        }
        *(LANE *)(best + v * W) = found;
        *(LANE *)(second + v * W) = runner_up;
        for (ptrdiff_t k = 0; hard && k < K; k++)
            *(LANE *)(r + k * room + v * W) = PICK(found == ALL(LANE, (double)k), one);
    }
}

/* u and v of the n rows of a tile, and its norms, rounded up; see mx_bounds. */
TARGET static void THIS(mx_middle)(const double *z, ptrdiff_t n, ptrdiff_t stride, double *middle,
                                   double *norm)
{
    double *spread = middle + stride;       /* v */
    memset(middle, 0, sizeof(double) * 2 * (size_t)stride);
    for (ptrdiff_t r = 0; r < n; r++)
        for (ptrdiff_t d = 0; d < stride; d += W)
            *(LANE *)(middle + d) += *(const LANE *)(z + r * stride + d) / (double)n;
    for (ptrdiff_t r = 0; r < n; r++)
        for (ptrdiff_t d = 0; d < stride; d += W) {
            const LANE near = *(const LANE *)(z + r * stride + d) - *(const LANE *)(middle + d);
            *(LANE *)(spread + d) += near * near / (double)n;
        }
    for (int i = 0; i < 4; i++)
        norm[i] = 0.0;
    for (ptrdiff_t r = 0; r < n; r++) {
        double part[4][MX_PAD] = {{0}};
        for (ptrdiff_t d = 0; d < stride; d += MX_PAD)
            for (int v = 0; v < MX_PAD; v += W) {
                const LANE x = *(const LANE *)(z + r * stride + d + v),
                    near = x - *(const LANE *)(middle + d + v);
                const LANE far = near * near - *(const LANE *)(spread + d + v);
                *(LANE *)(part[0] + v) += x * x;
                *(LANE *)(part[1] + v) += x * x * (x * x);
                *(LANE *)(part[2] + v) += near * near;
                *(LANE *)(part[3] + v) += far * far;
            }
        for (int i = 0; i < 4; i++) {
            const double length = sqrt(simd_total(part[i])) * (1.0 + MX_ABOVE);
            norm[i] = norm[i] < length ? length : norm[i];
        }
    }
}

/* Between what numbers the scores of the rows of a tile under a component have changed. */
TARGET static void THIS(mx_changes)(const mx_bounds *b, ptrdiff_t k, ptrdiff_t tile, ptrdiff_t stride,
                                    double *least, double *most)
{
    const double *linear = b->moved + 2 * k * stride, *square = linear + stride, *norm = b->norm + 4 * tile;
    const double *middle = b->middle + 2 * tile * stride, *spread = middle + stride;
    double centre[MX_PAD], slope[MX_PAD];
    for (int v = 0; v < MX_PAD; v += W) {
        LANE change = ALL(LANE, 0.0), length = ALL(LANE, 0.0);
        for (ptrdiff_t d = v; d < stride; d += MX_PAD) {
            const LANE l = *(const LANE *)(linear + d), q = *(const LANE *)(square + d),
                u = *(const LANE *)(middle + d);
            const LANE curved = q * u, along = l + (curved + curved);
            change += (l + curved) * u + q * *(const LANE *)(spread + d);
            length += along * along;
        }
        *(LANE *)(centre + v) = change;
        *(LANE *)(slope + v) = length;
    }
    const double central = b->constant[k] + simd_total(centre);
    const double around = (1.0 + MX_ABOVE) * sqrt(simd_total(slope)) * norm[2] + b->square[k] * norm[3];
    *least = central - around;
    *most = central + around;
}

/* a bound as a float that is not larger */
static inline float THIS(mx_bound)(double x)
{
    return (float)((x < 0x1p126 ? x : 0x1p126) * (1.0 - MX_ABOVE));
}

/* Lists the components that may have probability in a tile; of the others the new bound is written.
 * Comparisons with NaN are false. */
TARGET static ptrdiff_t THIS(mx_list_live)(const mx_lists *l, const mx_bounds *b, ptrdiff_t tile,
                                           ptrdiff_t stride, int32_t *live)
{
    const double *norm = b->norm + 4 * tile;
    const double limit = MX_CERTAIN
        + 16.0 * (b->rounding[0] + norm[0] * b->rounding[1] + norm[1] * b->rounding[2]);
    float *behind = b->behind + tile * b->K;
    double best = INFINITY, least, most;        /* best: the least change of a score that was the best of a
                                                   row */
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < b->n_gone; i++)
        if (behind[b->gone[i]] <= 0.0f)
            best = -INFINITY;
    for (ptrdiff_t k = 0; k < l->K; k++)
        if (behind[b->slot[k]] <= 0.0f) {
            THIS(mx_changes)(b, k, tile, stride, &least, &most);
            best = least < best ? least : best;
        }
    for (ptrdiff_t k = 0; k < l->K; k++) {
        float *place = behind + b->slot[k];
        double bound = *place - (b->constant[k] + norm[0] * b->linear[k] + norm[1] * b->square[k]) + best;
        if (!(bound > limit) && *place + best > limit) {
            THIS(mx_changes)(b, k, tile, stride, &least, &most);
            bound = *place - most + best;
        }
        if (bound > limit)
            *place = THIS(mx_bound)(bound);
        else
            live[n++] = (int32_t)k;
    }
    return n;
}

/* Scores r (rows of components `room` apart, MX_TILE) of n listed components become responsibilities in
 * place. Per row: the log-sum-exp of the scores, and the entropy of the responsibilities. With bounds, how
 * far each component is at least behind the best goes to `behind`. */
TARGET static void THIS(mx_normalize)(double *r, const int32_t *live, ptrdiff_t n, ptrdiff_t room,
                                      const mx_bounds *bounds, float *behind, double *log_sum,
                                      double *entropy)
{
    LANE high[VECTORS], all[VECTORS], weighted[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        high[v] = ALL(LANE, -INFINITY);
        all[v] = weighted[v] = ALL(LANE, 0.0);
        for (ptrdiff_t k = 0; k < n; k++) {
            const LANE x = *(LANE *)(r + live[k] * room + v * W);
            high[v] = LARGER(x, high[v]);
        }
    }
    for (ptrdiff_t k = 0; k < n; k++) {
        LANE *place = (LANE *)(r + live[k] * room), nearest = ALL(LANE, -INFINITY);
        for (int v = 0; v < VECTORS; v++) {
            const LANE below = place[v] - high[v],
                e = PICK(below > -MX_CERTAIN, THIS(mx_exp)(PICK(below > -MX_CERTAIN, below)));
            nearest = LARGER(below, nearest);
            weighted[v] += e * PICK(below > -MX_CERTAIN, below);
            all[v] += e;
            place[v] = e;
        }
        if (bounds) {
            double least = INFINITY;
            for (int i = 0; i < W; i++)
                least = -((const double *)&nearest)[i] < least ? -((const double *)&nearest)[i] : least;
            behind[bounds->slot[live[k]]] = THIS(mx_bound)(least);
        }
    }
    for (int v = 0; v < VECTORS; v++) {
        const LANE share = 1.0 / all[v], log_all = THIS(mx_log)(all[v]);
        for (ptrdiff_t k = 0; k < n; k++) {
            LANE *place = (LANE *)(r + live[k] * room + v * W);
            const LANE x = *place * share;
            *place = PICK(x >= MX_DUST, x);
        }
        *(LANE *)(log_sum + v * W) = high[v] + log_all;
        *(LANE *)(entropy + v * W) = log_all - weighted[v] * share;
    }
}

/* s1 += sum w z, s2 += sum w z^2 over the listed rows, for `vectors` vectors of columns */
TARGET ALWAYS_INLINE void THIS(mx_add_some)(const double *z, ptrdiff_t stride, const int32_t *row,
                                            const double *w, ptrdiff_t n, int vectors, double *s1, double *s2)
{
    LANE a[TOGETHER], b[TOGETHER];
    for (int v = 0; v < vectors; v++)
        a[v] = b[v] = ALL(LANE, 0.0);
    for (ptrdiff_t i = 0; i < n; i++)
        for (int v = 0; v < vectors; v++) {
            const LANE x = *(const LANE *)(z + row[i] * stride + v * W), wx = x * w[i];
            a[v] += wx;
            b[v] += wx * x;
        }
    for (int v = 0; v < vectors; v++) {
        *(LANE *)(s1 + v * W) += a[v];
        *(LANE *)(s2 + v * W) += b[v];
    }
}

TARGET static void THIS(mx_add)(const double *z, ptrdiff_t stride, const int32_t *row, const double *w,
                                ptrdiff_t n, double *s1, double *s2)
{
    ptrdiff_t d = 0;
    for (; d + TOGETHER * W <= stride; d += TOGETHER * W)
        THIS(mx_add_some)(z + d, stride, row, w, n, TOGETHER, s1 + d, s2 + d);
    if (stride - d == 3 * W)
        THIS(mx_add_some)(z + d, stride, row, w, n, 3, s1 + d, s2 + d);
    else if (stride - d == 2 * W)
        THIS(mx_add_some)(z + d, stride, row, w, n, 2, s1 + d, s2 + d);
    else if (stride - d == W)
        THIS(mx_add_some)(z + d, stride, row, w, n, 1, s1 + d, s2 + d);
}

/* sum of n weights, those of the listed rows from `start` on; of a table that is not NULL, each times its
 * row's exposure */
TARGET static double THIS(mx_total)(const double *w, const int32_t *row, ptrdiff_t n, const mx_table *exposed,
                                    ptrdiff_t start)
{
    double sum[4] = {0};
    for (ptrdiff_t i = 0; i < n; i++)
        sum[i % 4] += exposed ? w[i] * exposed->exposure[mx_place(exposed, start + row[i])] : w[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Lists the rows whose responsibility is not zero, and returns their number; the bits of `tiles` mark the
 * tiles that the component takes part in. Most responsibilities are zero, often of all rows of a group. */
TARGET static ptrdiff_t THIS(mx_present)(const double *r, ptrdiff_t n, unsigned tiles, mx_scratch *s)
{
    ptrdiff_t some = 0;
    for (ptrdiff_t from = 0; from < n; from += MX_PAD) {
        const ptrdiff_t stop = n - from < MX_PAD ? n : from + MX_PAD;
        if (!(tiles >> from / MX_TILE & 1))
            continue;
        if (stop == from + MX_PAD) {
            int64_t bits[MX_PAD], any = 0;
            memcpy(bits, r + from, sizeof bits);
            for (int i = 0; i < MX_PAD; i++)
                any |= bits[i];
            if (!any)
                continue;
        }
        for (ptrdiff_t i = from; i < stop; i++) {
            s->weight[some] = r[i];
            s->row[some] = (int32_t)i;
            some += r[i] > 0.0;
        }
    }
    return some;
}

/* scores of a tile of m rows under its listed components */
TARGET static void THIS(mx_tile_scores)(const mx_table *t, const mx_lists *l, int linear, ptrdiff_t start,
                                        ptrdiff_t m, const double *z, const int32_t *live, ptrdiff_t n,
                                        ptrdiff_t room, double *tile, double *r)
{
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t i = 0; i < MX_TILE; i++) {
            const double e = !t->exposure ? 1.0 : i < m ? t->exposure[mx_place(t, start + i)] : 0.0;
            r[live[j] * room + i] = l->constant[live[j]] + e * l->reach[live[j]];
        }
    for (ptrdiff_t d = 0; d < t->D; d += MX_COLUMNS) {
        const ptrdiff_t columns = t->stride - d < MX_COLUMNS ? t->stride - d : MX_COLUMNS,
            *stop = l->stop + d / MX_COLUMNS * l->K;
        THIS(mx_transpose)(z + d, m, t->stride, columns, tile);
        for (ptrdiff_t j = 0; j < n; j++)
            THIS(mx_add_scores)(l, live[j] * t->D + d, stop[live[j]], linear, tile, r + live[j] * room);
    }
}

/* responsibilities of a block of rows, (K of the lists, room) */
TARGET static double THIS(mx_responsibilities)(const mx_table *t, const mx_lists *l, const mx_bounds *bounds,
                                               const mx_request *request, int linear, ptrdiff_t start,
                                               ptrdiff_t n, ptrdiff_t room, const double *cells,
                                               ptrdiff_t n_missing, mx_scratch *s)
{
    double entropy = 0.0;
    ptrdiff_t n_live[MX_MOST_ROWS / MX_TILE];
    for (ptrdiff_t from = 0; from < n; from += MX_TILE) {
        const ptrdiff_t m = n - from < MX_TILE ? n - from : MX_TILE, block_tile = from / MX_TILE,
            tile = (start + from) / MX_TILE;
        const double *z = cells + from * t->stride;
        int32_t *live = s->live + block_tile * l->K;
        if (bounds) {
            if (bounds->norm[4 * tile] < 0.0)
                THIS(mx_middle)(z, m, t->stride, bounds->middle + 2 * tile * t->stride,
                                bounds->norm + 4 * tile);
            n_live[block_tile] = THIS(mx_list_live)(l, bounds, tile, t->stride, live);
            for (ptrdiff_t j = 0; j < n_live[block_tile]; j++)
                s->tiles[live[j]] |= 1u << block_tile;
        } else {
            n_live[block_tile] = l->K;
            for (ptrdiff_t k = 0; k < l->K; k++)
                live[k] = (int32_t)k;
        }
        THIS(mx_tile_scores)(t, l, linear, start + from, m, z, live, n_live[block_tile], room, s->tile,
                             s->r + from);
    }
    for (ptrdiff_t h = 0; h < n_missing; h++) {
        const ptrdiff_t r = (ptrdiff_t)s->missing[h] / t->D, d = (ptrdiff_t)s->missing[h] % t->D;
        const double e = t->exposure ? t->exposure[mx_place(t, start + r)] : 1.0;
        for (ptrdiff_t k = 0; k < l->K; k++)
            s->r[k * room + r] -= e * l->missing[d * l->K + k];
    }
    for (ptrdiff_t from = 0; (request->label || request->hard) && from < n; from += MX_TILE) {
        double best[MX_TILE], second[MX_TILE];
        THIS(mx_best)(s->r + from, l->K, room, request->hard, best, second);
        for (ptrdiff_t i = 0; request->label && i < MX_TILE && from + i < n; i++)
            request->label[mx_place(t, start + from + i)] = (int32_t)best[i];
        for (ptrdiff_t i = 0; request->second && i < MX_TILE && from + i < n; i++)
            request->second[mx_place(t, start + from + i)] = (int32_t)second[i];
    }
    for (ptrdiff_t from = 0; !request->hard && from < n; from += MX_TILE) {
        double log_sum[MX_TILE], surprise[MX_TILE];
        float *behind = bounds ? bounds->behind + (start + from) / MX_TILE * bounds->K : NULL;
        THIS(mx_normalize)(s->r + from, s->live + from / MX_TILE * l->K, n_live[from / MX_TILE], room, bounds,
                           behind, log_sum, surprise);
        for (ptrdiff_t i = 0; i < MX_TILE && from + i < n; i++) {
            const ptrdiff_t at = mx_place(t, start + from + i);
            entropy += t->weight ? t->weight[at] * surprise[i] : surprise[i];
            if (request->evidence)
                request->evidence[at] = log_sum[i];
        }
    }
    for (ptrdiff_t i = 0; request->proba && i < n; i++)
        for (ptrdiff_t k = 0; k < l->K; k++)
            request->proba[mx_place(t, start + i) * l->K + k] = s->r[k * room + i];
    return entropy;
}

/* responsibilities given as input; returns their entropy */
static double THIS(mx_copy_given)(const mx_table *t, const mx_lists *l, const double *given, ptrdiff_t K,
                                  ptrdiff_t start, ptrdiff_t n, ptrdiff_t room, double *r)
{
    double entropy = 0.0;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < l->K; k++) {
            const ptrdiff_t at = mx_place(t, start + i);
            const double x = given[at * K + l->component[k]];
            r[k * room + i] = x;
            if (x > 0.0)
                entropy -= t->weight ? t->weight[at] * (x * log(x)) : x * log(x);
        }
    return entropy;
}

TARGET static void THIS(mx_rows)(const mx_table *t, const mx_lists *l, const mx_bounds *bounds,
                                 const mx_request *request, ptrdiff_t K, int linear, ptrdiff_t start,
                                 ptrdiff_t stop, mx_sums *sums, mx_scratch *s)
{
    const ptrdiff_t room = mx_block(t->D);
    for (ptrdiff_t from = start; from < stop; from += room) {
        const ptrdiff_t n = stop - from < room ? stop - from : room;
        const ptrdiff_t n_missing = t->kept ? 0 : THIS(mx_load)(t, from, n, s->z, s->missing);
        const double *z = t->kept ? t->kept + from * t->stride : s->z;
        memset(s->tiles, request->given || !bounds ? 255 : 0, sizeof(*s->tiles) * (size_t)l->K);
        const double entropy = request->given
            ? THIS(mx_copy_given)(t, l, request->given, K, from, n, room, s->r)
                                            : THIS(mx_responsibilities)(t, l, bounds, request, linear, from,
                                                                        n, room, z, n_missing,
                                                                         s);
        if (!sums)
            continue;
        *sums->entropy += entropy;
        for (ptrdiff_t j = 0; j < l->K; j++) {
            const ptrdiff_t k = l->component[j];
            const ptrdiff_t some = THIS(mx_present)(s->r + j * room, n, s->tiles[j], s);
            for (ptrdiff_t i = 0; t->weight && i < some; i++)
                s->weight[i] *= t->weight[mx_place(t, from + s->row[i])];
            double *s1 = sums->s1 + k * t->stride, *s2 = sums->s2 + k * t->stride;
            if (!some)
                continue;
            const double size = THIS(mx_total)(s->weight, s->row, some, NULL, from);
            if (sums->size[k] == 0.0) {
                memset(s1, 0, sizeof(double) * (size_t)t->stride);
                memset(s2, 0, sizeof(double) * (size_t)t->stride);
            }
            sums->size[k] += size;
            sums->reach[k] += t->exposure ? THIS(mx_total)(s->weight, s->row, some, t, from) : size;
            THIS(mx_add)(z, t->stride, s->row, s->weight, some, s1, s2);
        }
        for (ptrdiff_t h = 0; h < n_missing; h++) {
            const ptrdiff_t r = (ptrdiff_t)s->missing[h] / t->D, d = (ptrdiff_t)s->missing[h] % t->D,
                at = mx_place(t, from + r);
            const double e = t->exposure ? t->exposure[at] : 1.0, w = t->weight ? t->weight[at] : 1.0;
            for (ptrdiff_t j = 0; j < l->K; j++)
                sums->missing[l->component[j] * t->stride + d] += e * (w * s->r[j * room + r]);
        }
    }
}

#undef VECTORS
#undef TOGETHER
#undef AHEAD
