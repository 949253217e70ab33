/* One clone of the leaves of _craft_screen.h, included once per instruction set by _lanes.h. */

#define ROWS (WF == 16 ? 8 : 4)     /* rows whose sums fit the register file */

#if defined(__GNUC__)
#define FIRST_BIT(x) __builtin_ctz(x)
#else
#define FIRST_BIT(x) 0      /* of one lane */
#endif

/* the bits of the places of WF costs from `cost` on that are at most x */
#if LEVEL == 4
#define AT_MOST(cost, x) ((unsigned)_mm512_cmp_ps_mask(_mm512_loadu_ps(cost), _mm512_set1_ps(x), _CMP_LE_OQ))
#elif LEVEL == 3
#define AT_MOST(cost, x)                                                                            \
    ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(cost), _mm256_set1_ps(x), _CMP_LE_OQ)))
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

/* z of the cells of a whole tile, rounded; NaN where a cell is missing */
#define ROUND_TILE(type)                                                                       \
TARGET static void THIS(screen_round_##type)(const craft_tables *t, const type *restrict x,    \
                                             float *restrict cells)                            \
{                                                                                              \
    const double *restrict centre = t->centre, *restrict scale = t->scale;                     \
    const ptrdiff_t run = t->p * t->repeat;                                                    \
    for (ptrdiff_t from = 0; from < CRAFT_TILE * t->p; from += run) {                          \
        ptrdiff_t j = 0;                                                                       \
        for (; j + W <= run; j += W) {                                                         \
            const LANE own = (CELLS_##type(x + from + j) - *(const LANE *)(centre + j))        \
                * *(const LANE *)(scale + j);                                                  \
            STORE_FLOATS(cells + from + j, own);                                               \
        }                                                                                      \
        for (; j < run; j++)                                                                   \
            cells[from + j] = (float)((x[from + j] - centre[j]) * scale[j]);                   \
    }                                                                                          \
}
ROUND_TILE(float)
ROUND_TILE(double)

/* A bound of the error of every cost of the tile: |z| of a column is at most its largest in the tile. It is
 * not finite where a cell is not: sizes are compared by their bits, and those of NaN are the largest. */
TARGET static double THIS(screen_error)(const craft_tables *t, float *restrict cells)
{
    const craft_rounded *s = &t->rounded;
    const ptrdiff_t p = t->p;
    float size = 0.0f, parts[WF];
    if (CRAFT_DENSE * t->n_numeric < p) {
        for (ptrdiff_t a = 0; a < t->n_numeric; a++) {
            const ptrdiff_t d = t->numeric[a];
            float peak = 0.0f;
            for (ptrdiff_t r = 0; r < CRAFT_TILE; r++)
                peak = fabsf(cells[r * p + d]) > peak ? fabsf(cells[r * p + d]) : peak;
            size += (s->most_square[d] * peak + s->most_linear[d]) * peak;
        }
        return s->error_per_size * (double)size + s->error_at_0;
    }
    FLOATS sum = {0};
    memset(cells + CRAFT_TILE * p, 0, sizeof sum);
    for (ptrdiff_t d = 0; d < p; d += WF) {     /* the last vector of a row reads on, with weights of 0 */
        INTS peak = {0};
        CRAFT_ONE_BY_ONE for (ptrdiff_t j = d; j < CRAFT_TILE * p; j += p)
            peak = LARGER_I(*(const INTS *)(cells + j) & INT32_MAX, peak);
        const FLOATS most = *(const FLOATS *)&peak;
        sum += (*(const FLOATS *)(s->most_square + d) * most + *(const FLOATS *)(s->most_linear + d)) * most;
    }
    memcpy(parts, &sum, sizeof sum);
    for (int v = 0; v < WF; v++)
        size += parts[v];
    return s->error_per_size * (double)size + s->error_at_0;
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

TARGET static void THIS(screen_costs)(const craft_tables *t, const float *const *start, const float *cells,
                                      const int32_t *level, ptrdiff_t stride, float *cost)
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

/* Whether every row of a tile is certain to keep its cluster: only the lane of its label is at most the cost
 * there and the margin. */
TARGET ALWAYS_INLINE int THIS(screen_kept)(const float *cost, ptrdiff_t stride, ptrdiff_t rows,
                                           const int32_t *labels, float margin)
{
    int32_t signs = 0;
    unsigned others = 0;
    for (ptrdiff_t r = 0; r < rows; r++)
        signs |= labels[r];
    if (signs < 0)
        return 0;
    for (ptrdiff_t r = 0; r < rows; r++, cost += stride) {
        const float most = cost[labels[r]] + margin;
        for (ptrdiff_t k = 0; k < stride; k += WF) {
            const unsigned own = (unsigned)(labels[r] - (int32_t)k);
            others |= AT_MOST(cost + k, most) ^ (own < WF ? 1u << own : 0u);
        }
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

/* The first terms of the costs of a tile in double precision, from craft_cells; the cells are rounded. */
TARGET static void THIS(screen_filled)(const craft_tables *t, const double *restrict z,
                                       const double *const *start, ptrdiff_t stride, float *restrict cells,
                                       float *restrict cost, const float **own)
{
    for (ptrdiff_t r = 0; r < CRAFT_TILE; r++) {
        if (CRAFT_DENSE * t->n_numeric < t->p)
            for (ptrdiff_t a = 0; a < t->n_numeric; a++)
                cells[r * t->p + t->numeric[a]] = (float)z[r * t->p + t->numeric[a]];
        else
            for (ptrdiff_t d = 0; d < t->p; d++)
                cells[r * t->p + d] = (float)z[r * t->p + d];
        if (start[r] == t->constant)
            continue;
        own[r] = cost + r * stride;     /* a row with missing cells */
        for (ptrdiff_t k = 0; k < t->lanes; k++)
            cost[r * stride + k] = (float)start[r][k];
    }
}

/* The cheapest cluster of every row, see craft_screen_tile. */
TARGET static craft_certainty THIS(craft_screened)(const craft_tables *t, const void *x, int single,
                                                   const void *codes, int wide, ptrdiff_t first,
                                                   ptrdiff_t rows, const int32_t *labels, double *scratch,
                                                   int32_t *cheapest)
{
    const ptrdiff_t stride = (t->lanes + WF - 1) / WF * WF, p = t->p, q = t->q;
    int32_t *level = (int32_t *)(scratch + CRAFT_TILE * p);
    double *whole = scratch + CRAFT_TILE * (p + q);
    float *cells = (float *)(scratch + craft_costs_size(p, q, t->lanes)),
        *cost = cells + CRAFT_TILE * ((p + 1) / 2 * 2) + CRAFT_WIDE;
    float margin = INFINITY;
    const float *own[CRAFT_TILE];
    for (ptrdiff_t r = 0; r < CRAFT_TILE; r++)
        own[r] = t->rounded.constant;
    if (rows == CRAFT_TILE && p > 0 && CRAFT_DENSE * t->n_numeric >= p) {
        CRAFT_FETCH(x, single ? sizeof(float) : sizeof(double), p)
        CRAFT_FETCH(codes, wide ? sizeof(uint16_t) : sizeof(uint8_t), q)
        if (single)
            THIS(screen_round_float)(t, (const float *)x + first * p, cells);
        else
            THIS(screen_round_double)(t, (const double *)x + first * p, cells);
        margin = 2.0f * (float)THIS(screen_error)(t, cells);
        if (t->n_categorical && wide)
            THIS(craft_fill_uint16_t)(t, (const uint16_t *)codes + first * q, rows, level);
        else if (t->n_categorical)
            THIS(craft_fill_uint8_t)(t, (const uint8_t *)codes + first * q, rows, level);
    }
    if (!(margin < CRAFT_MOST_ERROR)) {     /* a short tile, missing cells or very large ones, few columns */
        const double *start[CRAFT_TILE];
        ptrdiff_t *present = (ptrdiff_t *)(whole + CRAFT_TILE * t->lanes);
        THIS(craft_cells)(t, x, single, codes, wide, first, rows, scratch, level, whole, present, start);
        THIS(screen_filled)(t, scratch, start, stride, cells, cost, own);
        margin = 2.0f * (float)THIS(screen_error)(t, cells);
    }
    if (!(margin < CRAFT_MOST_ERROR))
        return CRAFT_UNSURE;
    THIS(screen_costs)(t, own, cells, level, stride, cost);
    if (stride == WF ? THIS(screen_kept)(cost, WF, rows, labels, margin)
        : THIS(screen_kept)(cost, stride, rows, labels, margin))
        return CRAFT_KEPT;
    for (ptrdiff_t r = 0; r < rows; r++, cost += stride)
        if (!THIS(screen_one)(cost, stride, THIS(screen_least)(cost, stride) + margin, cheapest + r))
            return CRAFT_UNSURE;
    return CRAFT_CERTAIN;
}

#undef ROWS
#undef ROUND_TILE
#undef FIRST_BIT
#undef AT_MOST
#undef ACCUMULATE
