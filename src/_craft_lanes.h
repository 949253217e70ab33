/* One clone of the leaves of _craft.h, for vectors of CRAFT_WIDTH doubles. Included once per clone. */

#define THIS(stem) CRAFT_NAME(stem, CRAFT_SUFFIX)
#if CRAFT_WIDTH > 1
typedef double THIS(lane) __attribute__((vector_size(8 * CRAFT_WIDTH), aligned(8), may_alias));
typedef int64_t THIS(choice) __attribute__((vector_size(8 * CRAFT_WIDTH)));
#else
typedef double THIS(lane);
#endif
#define LANE THIS(lane)
#define CHOICE THIS(choice)
/* rows whose accumulators fit the register file beside one column's tables */
#define ROWS (CRAFT_WIDTH == 8 ? 8 : 4)

/* z of the selected numeric columns and where a row's sums start: a row with holes adds up its own C in its place of `cost` */
#define FILL_NUMERIC(type)                                                              \
    for (ptrdiff_t r = 0; r < CRAFT_TILE; r++) {                                        \
        const type *row = (const type *)x + (first + (r < rows ? r : 0)) * t->p;        \
        double *out = z + r * t->n_numeric;                                             \
        int holes = 0;                                                                  \
        for (ptrdiff_t a = 0; a < t->n_numeric; a++) {                                  \
            ptrdiff_t d = dense ? a : t->numeric[a];                                    \
            double cell = row[d], v = (cell - t->centre[d]) * t->scale[d];              \
            v = v > CRAFT_FAR ? CRAFT_FAR : v;                                          \
            v = v < -CRAFT_FAR ? -CRAFT_FAR : v;                                        \
            holes |= cell != cell;                                                      \
            out[a] = cell == cell ? v : 0.0;                                            \
        }                                                                               \
        start[r] = holes ? cost + r * t->lanes : t->constant;                           \
        if (holes) {                                                                    \
            memcpy(cost + r * t->lanes, t->base, sizeof(double) * t->lanes);            \
            for (ptrdiff_t a = 0; a < t->n_numeric; a++)                                \
                if (row[t->numeric[a]] == row[t->numeric[a]])                           \
                    for (ptrdiff_t k = 0; k < t->lanes; k++)                            \
                        cost[r * t->lanes + k] += t->offset[t->numeric[a] * t->lanes + k]; \
        }                                                                               \
    }
#define FILL_LEVELS(type)                                                               \
    for (ptrdiff_t r = 0; r < CRAFT_TILE; r++) {                                        \
        const type *row = (const type *)codes + (first + (r < rows ? r : 0)) * t->q;    \
        ptrdiff_t *out = level + r * t->n_categorical;                                  \
        for (ptrdiff_t a = 0; a < t->n_categorical; a++) {                              \
            ptrdiff_t d = t->categorical[a];                                            \
            out[a] = (t->level_start[d] + (ptrdiff_t)row[d]) * t->lanes;                \
        }                                                                               \
    }
/* ROWS rows, VECTORS vectors of lanes from lane `k` on */
#define ACCUMULATE(VECTORS)                                                             \
    {                                                                                   \
        LANE sum[ROWS][VECTORS];                                                        \
        CRAFT_UNROLL for (int r = 0; r < ROWS; r++)                                     \
            CRAFT_UNROLL for (int v = 0; v < VECTORS; v++)                              \
                sum[r][v] = *(const LANE *)(start[r0 + r] + k + v * CRAFT_WIDTH);       \
        for (ptrdiff_t a = 0; a < t->n_numeric; a++) {                                  \
            ptrdiff_t at = t->numeric[a] * t->lanes + k;                                \
            for (int v = 0; v < VECTORS; v++) {                                         \
                LANE square = *(const LANE *)(t->square + at + v * CRAFT_WIDTH);        \
                LANE linear = *(const LANE *)(t->linear + at + v * CRAFT_WIDTH);        \
                for (int r = 0; r < ROWS; r++) {                                        \
                    double cell = z[(r0 + r) * t->n_numeric + a];                       \
                    sum[r][v] += (square * cell + linear) * cell;                       \
                }                                                                       \
            }                                                                           \
        }                                                                               \
        for (ptrdiff_t a = 0; a < t->n_categorical; a++)                                \
            for (int r = 0; r < ROWS; r++) {                                            \
                const double *entry = t->level + level[(r0 + r) * t->n_categorical + a] + k; \
                for (int v = 0; v < VECTORS; v++)                                       \
                    sum[r][v] += *(const LANE *)(entry + v * CRAFT_WIDTH);              \
            }                                                                           \
        for (int r = 0; r < ROWS; r++)                                                  \
            for (int v = 0; v < VECTORS; v++)                                           \
                *(LANE *)(cost + (r0 + r) * t->lanes + k + v * CRAFT_WIDTH) = sum[r][v]; \
    }

CRAFT_ATTRIBUTE static void THIS(craft_costs)(const craft_tables *t, const void *x, int single, const void *codes, int wide,
                                              ptrdiff_t first, ptrdiff_t rows, double *z, ptrdiff_t *level, double *cost)
{
    const double *start[CRAFT_TILE];
    int dense = t->n_numeric == t->p;
    if (single)
        FILL_NUMERIC(float)
    else
        FILL_NUMERIC(double)
    if (wide)
        FILL_LEVELS(uint16_t)
    else
        FILL_LEVELS(uint8_t)
    for (ptrdiff_t r0 = 0; r0 < rows; r0 += ROWS) {
        ptrdiff_t k = 0;
        for (; k + 2 * CRAFT_WIDTH <= t->lanes; k += 2 * CRAFT_WIDTH)
            ACCUMULATE(2)
        for (; k < t->lanes; k += CRAFT_WIDTH)
            ACCUMULATE(1)
    }
}

/* The minimum across lanes, rows as lanes: squares of CRAFT_WIDTH x CRAFT_WIDTH costs are transposed in registers. */
#if CRAFT_WIDTH > 1 && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TRANSPOSED 1
#endif
#endif

CRAFT_ATTRIBUTE static void THIS(craft_cheapest)(const craft_tables *t, const double *cost, double *best, int32_t *arg)
{
#ifdef TRANSPOSED
    for (int r0 = 0; r0 < CRAFT_TILE; r0 += CRAFT_WIDTH) {
        LANE least = (LANE){0} + INFINITY;
        CHOICE which = (CHOICE){0};
        for (ptrdiff_t k0 = 0; k0 < t->lanes; k0 += CRAFT_WIDTH) {
            LANE m[CRAFT_WIDTH];
            for (int r = 0; r < CRAFT_WIDTH; r++)
                m[r] = *(const LANE *)(cost + (r0 + r) * t->lanes + k0);
#if CRAFT_WIDTH == 2
            LANE u = __builtin_shufflevector(m[0], m[1], 0, 2);
            m[1] = __builtin_shufflevector(m[0], m[1], 1, 3);
            m[0] = u;
#elif CRAFT_WIDTH == 4
            for (int r = 0; r < 4; r += 2) {
                LANE u = __builtin_shufflevector(m[r], m[r + 1], 0, 4, 2, 6);
                m[r + 1] = __builtin_shufflevector(m[r], m[r + 1], 1, 5, 3, 7);
                m[r] = u;
            }
            for (int r = 0; r < 2; r++) {
                LANE u = __builtin_shufflevector(m[r], m[r + 2], 0, 1, 4, 5);
                m[r + 2] = __builtin_shufflevector(m[r], m[r + 2], 2, 3, 6, 7);
                m[r] = u;
            }
#else
            for (int r = 0; r < 8; r += 2) {
                LANE u = __builtin_shufflevector(m[r], m[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
                m[r + 1] = __builtin_shufflevector(m[r], m[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
                m[r] = u;
            }
            for (int half = 0; half < 8; half += 4)
                for (int r = half; r < half + 2; r++) {
                    LANE u = __builtin_shufflevector(m[r], m[r + 2], 0, 1, 8, 9, 4, 5, 12, 13);
                    m[r + 2] = __builtin_shufflevector(m[r], m[r + 2], 2, 3, 10, 11, 6, 7, 14, 15);
                    m[r] = u;
                }
            for (int r = 0; r < 4; r++) {
                LANE u = __builtin_shufflevector(m[r], m[r + 4], 0, 1, 2, 3, 8, 9, 10, 11);
                m[r + 4] = __builtin_shufflevector(m[r], m[r + 4], 4, 5, 6, 7, 12, 13, 14, 15);
                m[r] = u;
            }
#endif
            for (int c = 0; c < CRAFT_WIDTH; c++) {
                CHOICE lower = m[c] < least;
                least = (LANE)(((CHOICE)m[c] & lower) | ((CHOICE)least & ~lower));
                which = (((CHOICE){0} + (int64_t)(k0 + c)) & lower) | (which & ~lower);
            }
        }
        for (int r = 0; r < CRAFT_WIDTH; r++) {
            best[r0 + r] = least[r];
            arg[r0 + r] = (int32_t)which[r];
        }
    }
#else
    for (int r = 0; r < CRAFT_TILE; r++) {
        const double *row = cost + r * t->lanes;
        best[r] = row[0];
        arg[r] = 0;
        for (ptrdiff_t k = 1; k < t->n_clusters; k++)
            if (row[k] < best[r]) {
                best[r] = row[k];
                arg[r] = (int32_t)k;
            }
    }
#endif
}

#undef THIS
#undef LANE
#undef CHOICE
#undef ROWS
#undef FILL_NUMERIC
#undef FILL_LEVELS
#undef ACCUMULATE
#undef TRANSPOSED
#undef CRAFT_WIDTH
#undef CRAFT_ATTRIBUTE
#undef CRAFT_SUFFIX
