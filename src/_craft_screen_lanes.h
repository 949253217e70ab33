/* One clone of the leaves of _craft_screen.h, included once per instruction set by _lanes.h. */

#define ROWS (WF == 16 ? 8 : 4)     /* rows whose sums fit the register file */

#if defined(__GNUC__)
#define SIZE(x) ((LANE)((BITS)(x) & INT64_MAX))
#define FIRST_BIT(x) __builtin_ctz(x)
#else
#define SIZE(x) fabs(x)
#define FIRST_BIT(x) 0      /* of one lane */
#endif

/* the bits of the places of WF costs from `cost` on that are at most x */
#if LEVEL == 4
#define AT_MOST(cost, x) ((unsigned)_mm512_cmp_ps_mask(_mm512_loadu_ps(cost), _mm512_set1_ps(x), _CMP_LE_OQ))
#elif LEVEL == 3
#define AT_MOST(cost, x) ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(cost), _mm256_set1_ps(x), _CMP_LE_OQ)))
#elif CRAFTC_CLONES
#define AT_MOST(cost, x) ((unsigned)_mm_movemask_ps(_mm_cmple_ps(_mm_loadu_ps(cost), _mm_set1_ps(x))))
#else
#define AT_MOST(cost, x) THIS(screen_bits)(cost, x)
TARGET static unsigned THIS(screen_bits)(const float *cost, float x)
{
    unsigned bits = 0;
    for (int v = 0; v < WF; v++)
        bits |= (unsigned)(cost[v] <= x) << v;
    return bits;
}
#endif

/* Rounds z to `cells`. Returns a bound of the error of every cost of the tile: |z| of a column is at most its largest in the tile. */
TARGET static double THIS(screen_cells)(const craft_tables *t, const double *restrict z, float *restrict cells)
{
    const craft_rounded *s = &t->rounded;
    const ptrdiff_t p = t->p;
    double size = 0.0;
    if (CRAFT_DENSE * t->n_numeric < p) {
        for (ptrdiff_t a = 0; a < t->n_numeric; a++) {
            const ptrdiff_t d = t->numeric[a];
            double peak = 0.0;
            for (ptrdiff_t r = 0; r < CRAFT_TILE; r++) {
                const double own = z[r * p + d];
                cells[r * p + d] = (float)own;
                peak = fabs(own) > peak ? fabs(own) : peak;
            }
            size += (s->most_square[d] * peak + s->most_linear[d]) * peak;
        }
        return s->error_per_size * size + s->error_at_0;
    }
    LANE sum = {0};
    for (ptrdiff_t d = 0; d < p; d += W) {      /* the last vector of a row reads on, with weights of 0 */
        LANE peak = {0}, other = {0};           /* of rows in turn: one maximum waits for the former */
        CRAFT_ONE_BY_ONE for (ptrdiff_t j = d; j < CRAFT_TILE * p; j += 2 * p) {
            const LANE own = *(const LANE *)(z + j), next = *(const LANE *)(z + j + p);
            STORE_FLOATS(cells + j, own);
            STORE_FLOATS(cells + j + p, next);
            peak = LARGER(SIZE(own), peak);
            other = LARGER(SIZE(next), other);
        }
        peak = SMALLER(LARGER(peak, other), ALL(LANE, CRAFT_FAR));
        sum += (*(const LANE *)(s->most_square + d) * peak + *(const LANE *)(s->most_linear + d)) * peak;
    }
#if LEVEL == 4
    size = _mm512_reduce_add_pd((__m512d)sum);
#else
    double parts[W];
    memcpy(parts, &sum, sizeof sum);
    for (int v = 0; v < W; v++)
        size += parts[v];
#endif
    return s->error_per_size * size + s->error_at_0;
}

/* ROWS rows, VECTORS vectors of lanes from lane `k` on */
#define ACCUMULATE(VECTORS)                                                                 \
    {                                                                                       \
        const float *levels = s->level + k;                                                 \
        FLOATS sum[ROWS][VECTORS];                                                          \
        CRAFT_UNROLL for (int r = 0; r < ROWS; r++)                                         \
            CRAFT_UNROLL for (int v = 0; v < VECTORS; v++)                                  \
                sum[r][v] = *(const FLOATS *)(start[r0 + r] + k + v * WF);                  \
        for (ptrdiff_t a = 0; a < t->n_numeric; a++) {                                      \
            const float *own = cells + r0 * p + t->numeric[a];                              \
            const ptrdiff_t at = t->numeric[a] * lanes + k;                                 \
            CRAFT_UNROLL for (int v = 0; v < VECTORS; v++) {                                \
                const FLOATS square = *(const FLOATS *)(s->square + at + v * WF);           \
                const FLOATS linear = *(const FLOATS *)(s->minus_linear + at + v * WF);     \
                CRAFT_UNROLL for (int r = 0; r < ROWS; r++) {                               \
                    const FLOATS z = ALL(FLOATS, own[r * p]);                               \
                    sum[r][v] = MINUS_PRODUCT(sum[r][v], MINUS_PRODUCT(linear, square, z), z);    \
                }                                                                           \
            }                                                                               \
        }                                                                                   \
        for (ptrdiff_t a = 0; a < t->n_categorical; a++) {                                  \
            const int32_t *offsets = level + r0 * q + t->categorical[a];                    \
            CRAFT_UNROLL for (int r = 0; r < ROWS; r++)                                     \
                CRAFT_UNROLL for (int v = 0; v < VECTORS; v++)                              \
                    sum[r][v] += *(const FLOATS *)(levels + v * WF + offsets[r * q]);       \
        }                                                                                   \
        CRAFT_UNROLL for (int r = 0; r < ROWS; r++)                                         \
            CRAFT_UNROLL for (int v = 0; v < VECTORS; v++)                                  \
                *(FLOATS *)(cost + (r0 + r) * stride + k + v * WF) = sum[r][v];             \
    }

TARGET static void THIS(screen_costs)(const craft_tables *t, const float *const *start, const float *cells, const int32_t *level,
                                      ptrdiff_t stride, float *cost)
{
    const craft_rounded *s = &t->rounded;
    const ptrdiff_t lanes = t->lanes, p = t->p, q = t->q;
    for (ptrdiff_t r0 = 0; r0 < CRAFT_TILE; r0 += ROWS) {
        ptrdiff_t k = 0;
        for (; k + WF < lanes; k += 2 * WF)
            ACCUMULATE(2)
        for (; k < lanes; k += WF)
            ACCUMULATE(1)
    }
    if (lanes % WF)                     /* lanes that belong to the next row of the tables */
        for (ptrdiff_t r = 0; r < CRAFT_TILE; r++)
            for (ptrdiff_t k = lanes; k < stride; k++)
                cost[r * stride + k] = INFINITY;
}

/* Whether only one lane of a row of costs, `lane`, is at most x. */
TARGET ALWAYS_INLINE int THIS(screen_one)(const float *cost, ptrdiff_t stride, float x, int32_t *lane)
{
    unsigned several = 0, seen = 0;
    for (ptrdiff_t k = 0; k < stride; k += WF) {
        const unsigned near = AT_MOST(cost + k, x);
        if (near)
            *lane = (int32_t)k + FIRST_BIT(near);
        several |= (near & (near - 1)) | (seen & near);
        seen |= near ? ~0u : 0u;
    }
    return seen && !several;
}

/* Whether every row of a tile is certain to keep its cluster: only the lane of its label is at most the cost there and the margin. */
TARGET ALWAYS_INLINE int THIS(screen_kept)(const float *cost, ptrdiff_t stride, ptrdiff_t rows, const int32_t *labels, float margin)
{
    int32_t signs = 0;
    unsigned others = 0;
    for (ptrdiff_t r = 0; r < rows; r++)
        signs |= labels[r];
    if (signs < 0)
        return 0;
    for (ptrdiff_t r = 0; r < rows; r++, cost += stride) {
        const float most = cost[labels[r]] + margin;
        for (ptrdiff_t k = 0; k < stride; k += WF)
            others |= AT_MOST(cost + k, most) ^ (k == labels[r] / WF * WF ? 1u << labels[r] % WF : 0u);
    }
    return !others;
}

TARGET static float THIS(screen_least)(const float *cost, ptrdiff_t stride)
{
    FLOATS least = *(const FLOATS *)cost;
    float parts[WF];
    for (ptrdiff_t k = WF; k < stride; k += WF)
        least = SMALLER_F(least, *(const FLOATS *)(cost + k));
    memcpy(parts, &least, sizeof least);
    for (int v = 1; v < WF; v++)
        parts[0] = parts[v] < parts[0] ? parts[v] : parts[0];
    return parts[0];
}

/* The cheapest cluster of every row, see craft_screen_tile. */
TARGET static craft_certainty THIS(craft_screened)(const craft_tables *t, const double *const *start, const double *z, const int32_t *level,
                                                   const int32_t *labels, ptrdiff_t rows, float *room, int32_t *cheapest)
{
    const ptrdiff_t stride = (t->lanes + WF - 1) / WF * WF;
    float *cells = room, *cost = room + CRAFT_TILE * ((t->p + 1) / 2 * 2) + CRAFT_WIDE;
    const float margin = 2.0f * (float)THIS(screen_cells)(t, z, cells);
    const float *own[CRAFT_TILE];
    for (ptrdiff_t r = 0; r < CRAFT_TILE; r++) {
        own[r] = t->rounded.constant;
        if (start[r] == t->constant)
            continue;
        own[r] = cost + r * stride;     /* a row with missing cells */
        for (ptrdiff_t k = 0; k < t->lanes; k++)
            cost[r * stride + k] = (float)start[r][k];
    }
    THIS(screen_costs)(t, own, cells, level, stride, cost);
    if (!(margin < CRAFT_MOST_ERROR))
        return CRAFT_UNSURE;
    if (stride == WF ? THIS(screen_kept)(cost, WF, rows, labels, margin) : THIS(screen_kept)(cost, stride, rows, labels, margin))
        return CRAFT_KEPT;
    for (ptrdiff_t r = 0; r < rows; r++, cost += stride)
        if (!THIS(screen_one)(cost, stride, THIS(screen_least)(cost, stride) + margin, cheapest + r))
            return CRAFT_UNSURE;
    return CRAFT_CERTAIN;
}

#undef ROWS
#undef SIZE
#undef FIRST_BIT
#undef AT_MOST
#undef ACCUMULATE
