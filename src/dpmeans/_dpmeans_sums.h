/* Integer sums of rows in clusters. Included by _dpmeans_scan.h. */

#define ADD(type)                                                                                            \
TARGET static inline void THIS(dp_add_##type)(const double *restrict centre, const double *restrict scale,   \
                                              const type *restrict x, ptrdiff_t D, int64_t *restrict to,     \
                                                  double share, int64_t times)                               \
{                                                                                                            \
    for (ptrdiff_t d = 0; d < D; d++) {                                                                      \
        union { double real; int64_t bits; } q;                                                              \
        q.real = ((double)x[d] - centre[d]) * scale[d] * share + SIMD_MAGIC;                                 \
        to[d] += times * (q.bits - SIMD_MAGIC_BITS);                                                         \
    }                                                                                                        \
}                                                                                                            \
TARGET static inline void THIS(dp_move_##type)(const dp_sums *s, const type *restrict x, ptrdiff_t D,        \
                                               int64_t *restrict from, int64_t *restrict to)                 \
{                                                                                                            \
    const double *restrict centre = s->centre, *restrict scale = s->scale;                                   \
    for (ptrdiff_t d = 0; d < D; d++) {                                                                      \
        union { double real; int64_t bits; } q;                                                              \
        q.real = ((double)x[d] - centre[d]) * scale[d] + SIMD_MAGIC;                                         \
        q.bits -= SIMD_MAGIC_BITS;                                                                           \
        from[d] -= q.bits;                                                                                   \
        to[d] += q.bits;                                                                                     \
    }                                                                                                        \
}
ADD(float)
ADD(double)
#undef ADD

TARGET static void THIS(dp_add)(const dp_sums *s, const void *x, int single, ptrdiff_t D, int32_t cluster,
                                ptrdiff_t i, int sign)
{
    const int64_t weight = s->weight ? s->weight[i] : 1;
    const double share = s->share ? s->share[i] : 1.0;
    const int64_t times = s->share ? sign : sign * weight;
    s->counts[cluster] += sign * weight;
    if (single)
        THIS(dp_add_float)(s->centre, s->scale, (const float *)x, D, s->sums + cluster * D, share, times);
    else
        THIS(dp_add_double)(s->centre, s->scale, (const double *)x, D, s->sums + cluster * D, share, times);
}

/* n rows without weights, those of `list`, are added to their clusters: the grid of some columns stays in
 * registers */
#define SUM_COLUMNS 16
#define ADD_ROWS(type)                                                                                       \
TARGET ALWAYS_INLINE void THIS(dp_enter_some_##type)(const dp_sums *s, const type *x, ptrdiff_t D,           \
                                                     const int32_t *list, const int32_t *clusters,           \
                                                         ptrdiff_t n, ptrdiff_t d, const int vectors)        \
{                                                                                                            \
    LANE centre[SUM_COLUMNS / W], scale[SUM_COLUMNS / W];                                                    \
    for (int v = 0; v < vectors; v++) {                                                                      \
        centre[v] = CELLS_double(s->centre + d + v * W);                                                     \
        scale[v] = CELLS_double(s->scale + d + v * W);                                                       \
    }                                                                                                        \
    for (ptrdiff_t r = 0; r < n; r++) {                                                                      \
        const type *own = x + list[r] * D + d;                                                               \
        int64_t *to = s->sums + clusters[r] * D + d;                                                         \
        for (int v = 0; v < vectors; v++) {                                                                  \
            const LANE q = (CELLS_##type(own + v * W) - centre[v]) * scale[v];                               \
            *(BITS *)(to + v * W) += BITS_OF(q + SIMD_MAGIC) - SIMD_MAGIC_BITS;                              \
        }                                                                                                    \
    }                                                                                                        \
}                                                                                                            \
TARGET static void THIS(dp_enter_##type)(const dp_sums *s, const type *x, ptrdiff_t D, const int32_t *list,  \
                                         const int32_t *clusters, ptrdiff_t n)                               \
{                                                                                                            \
    ptrdiff_t d = 0;                                                                                         \
    for (ptrdiff_t r = 0; r < n; r++)                                                                        \
        s->counts[clusters[r]]++;                                                                            \
    for (; d + SUM_COLUMNS <= D; d += SUM_COLUMNS)                                                           \
        THIS(dp_enter_some_##type)(s, x, D, list, clusters, n, d, SUM_COLUMNS / W);                          \
    for (; d + W <= D; d += W)                                                                               \
        THIS(dp_enter_some_##type)(s, x, D, list, clusters, n, d, 1);                                        \
    for (ptrdiff_t r = 0; d < D && r < n; r++)                                                               \
        THIS(dp_add_##type)(s->centre + d, s->scale + d, x + list[r] * D + d, D - d,                         \
                            s->sums + clusters[r] * D + d, 1.0, 1);                                          \
}
ADD_ROWS(float)
ADD_ROWS(double)
#undef ADD_ROWS

TARGET static void THIS(dp_enter)(const dp_sums *s, const void *X, int single, ptrdiff_t D,
                                  const int32_t *list, const int32_t *clusters, ptrdiff_t n)
{
    if (s->weight)
        for (ptrdiff_t r = 0; r < n; r++)
            THIS(dp_add)(s, dp_row(X, single, D, list[r]), single, D, clusters[r], list[r], 1);
    else if (single)
        THIS(dp_enter_float)(s, (const float *)X, D, list, clusters, n);
    else
        THIS(dp_enter_double)(s, (const double *)X, D, list, clusters, n);
}

/* n rows without weights are added to the first cluster: some columns of a block of rows at a time, whose
 * sums stay in registers */
#define SUM_CELLS 4096
#define SUM_ROWS(type)                                                                                       \
TARGET ALWAYS_INLINE void THIS(dp_sum_some_##type)(const dp_sums *s, const type *restrict x, ptrdiff_t D,    \
                                                   ptrdiff_t n, ptrdiff_t d, const ptrdiff_t m)              \
{                                                                                                            \
    const double *restrict centre = s->centre + d, *restrict scale = s->scale + d;                           \
    int64_t sum[SUM_COLUMNS] = {0};                                                                          \
    for (ptrdiff_t i = 0; i < n; i++)                                                                        \
        for (ptrdiff_t j = 0; j < m; j++) {                                                                  \
            union { double real; int64_t bits; } q;                                                          \
            q.real = ((double)x[i * D + d + j] - centre[j]) * scale[j] + SIMD_MAGIC;                         \
            sum[j] += q.bits - SIMD_MAGIC_BITS;                                                              \
        }                                                                                                    \
    for (ptrdiff_t j = 0; j < m; j++)                                                                        \
        s->sums[d + j] += sum[j];                                                                            \
}                                                                                                            \
TARGET static void THIS(dp_sum_rows_##type)(const dp_sums *s, const type *restrict x, ptrdiff_t D,           \
                                            ptrdiff_t n)                                                     \
{                                                                                                            \
    const ptrdiff_t most = D < SUM_CELLS ? SUM_CELLS / D : 1;                                                \
    for (ptrdiff_t first = 0, piece; first < n; first += piece) {                                            \
        ptrdiff_t d = 0;                                                                                     \
        piece = n - first < most ? n - first : most;                                                         \
        for (; d + SUM_COLUMNS <= D; d += SUM_COLUMNS)                                                       \
            THIS(dp_sum_some_##type)(s, x + first * D, D, piece, d, SUM_COLUMNS);                            \
        if (d < D)                                                                                           \
            THIS(dp_sum_some_##type)(s, x + first * D, D, piece, d, D - d);                                  \
    }                                                                                                        \
    s->counts[0] += n;                                                                                       \
}
SUM_ROWS(float)
SUM_ROWS(double)
#undef SUM_COLUMNS
#undef SUM_CELLS
#undef SUM_ROWS

TARGET static void THIS(dp_sum_rows)(const dp_sums *s, const void *X, int single, ptrdiff_t D,
                                     ptrdiff_t start, ptrdiff_t stop)
{
    if (s->weight)
        for (ptrdiff_t i = start; i < stop; i++)
            THIS(dp_add)(s, dp_row_in_order(X, single, D, i), single, D, 0, i, 1);
    else if (single)
        THIS(dp_sum_rows_float)(s, (const float *)dp_row(X, single, D, start), D, stop - start);
    else
        THIS(dp_sum_rows_double)(s, (const double *)dp_row(X, single, D, start), D, stop - start);
}

/* rows [start, stop) are added to their clusters */
TARGET static void THIS(dp_add_rows)(const dp_sums *s, const void *X, int single, ptrdiff_t D,
                                     const int32_t *labels, ptrdiff_t start, ptrdiff_t stop)
{
    int32_t list[DP_TILE];
    for (ptrdiff_t n; start < stop; start += n) {
        n = stop - start < DP_TILE ? stop - start : DP_TILE;
        for (ptrdiff_t r = 0; r < n; r++) {
            list[r] = (int32_t)(start + r);
            dp_row_in_order(X, single, D, start + r);   /* fetches rows further on */
        }
        THIS(dp_enter)(s, X, single, D, list, labels + start, n);
    }
}

/* row i changes its cluster; returns whether it has weight */
TARGET static inline int THIS(dp_move)(const dp_centres *c, const dp_sums *s, const void *x, ptrdiff_t i,
                                       int32_t from, int32_t to)
{
    if (s->weight) {
        THIS(dp_add)(s, x, c->single, c->D, from, i, -1);
        THIS(dp_add)(s, x, c->single, c->D, to, i, 1);
        return s->weight[i] != 0;
    }
    s->counts[from]--;
    s->counts[to]++;
    if (c->single)
        THIS(dp_move_float)(s, (const float *)x, c->D, s->sums + from * c->D, s->sums + to * c->D);
    else
        THIS(dp_move_double)(s, (const double *)x, c->D, s->sums + from * c->D, s->sums + to * c->D);
    return 1;
}
