/* One clone of the leaves of _craft.h, included once per instruction set by _lanes.h. */

/* rows whose accumulators fit the register file together with the tables of one column */
#define ROWS (W == 8 ? 8 : 4)

/* z of the cells x[from + j] of a run, W at a time */
#if defined(__GNUC__)
#define FILL_VECTORS(type)                                                                                  \
    {                                                                                                       \
        BITS lacking = {0};                                                                                 \
        for (; j + W <= run; j += W) {                                                                      \
            LANE cell = CELLS_##type(x + from + j);                                                         \
            LANE own = (cell - *(const LANE *)(centre + j)) * *(const LANE *)(scale + j);                   \
            own = SMALLER(LARGER(own, ALL(LANE, -CRAFT_FAR)), ALL(LANE, CRAFT_FAR));                        \
            *(LANE *)(z + from + j) = PICK(cell == cell, own);                                              \
            lacking |= cell != cell;                                                                        \
        }                                                                                                   \
        for (int v = 0; v < W; v++)                                                                         \
            missing |= lacking[v] != 0;                                                                     \
    }
#else
#define FILL_VECTORS(type)
#endif
/* z of the selected numeric columns, each in its own place; returns whether a cell is missing. Unless few
 * columns are selected it is cheaper to fill in all of them: `repeat` rows are one run of cells (the centres
 * are repeated `repeat` times), so that even few columns fill the vectors. */
#define FILL_NUMERIC(type)                                                                                   \
TARGET static int THIS(craft_fill_##type)(const craft_tables *t, const type *restrict x, ptrdiff_t rows,     \
                                          double *restrict z)                                                \
{                                                                                                            \
    const double *restrict centre = t->centre, *restrict scale = t->scale;                                   \
    const ptrdiff_t p = t->p, selected = t->n_numeric;                                                       \
    int missing = 0;                                                                                         \
    if (CRAFT_DENSE * selected >= p) {                                                                       \
        ptrdiff_t run = rows == CRAFT_TILE ? p * t->repeat : p;                                              \
        for (ptrdiff_t from = 0; from < rows * p; from += run) {                                             \
            ptrdiff_t j = 0;                                                                                 \
            FILL_VECTORS(type)                                                                               \
            for (; j < run; j++) {                                                                           \
                double cell = x[from + j];                                                                   \
                missing |= cell != cell;                                                                     \
                z[from + j] = CRAFT_Z(cell, centre[j], scale[j]);                                            \
            }                                                                                                \
        }                                                                                                    \
        return missing;                                                                                      \
    }                                                                                                        \
    for (ptrdiff_t r = 0; r < rows; r++)                                                                     \
        for (ptrdiff_t a = 0; a < selected; a++) {                                                           \
            ptrdiff_t d = t->numeric[a];                                                                     \
            double cell = x[r * p + d];                                                                      \
            missing |= cell != cell;                                                                         \
            z[r * p + d] = CRAFT_Z(cell, centre[d], scale[d]);                                               \
        }                                                                                                    \
    return missing;                                                                                          \
}                                                                                                            \
/* start of the sums of a row with missing cells: the sum of C over its present cells, stored in `cost` */   \
TARGET static void THIS(craft_missing_##type)(const craft_tables *t, const type *restrict x, ptrdiff_t rows, \
                                              double *cost, const double **start, ptrdiff_t *present)        \
{                                                                                                            \
    const ptrdiff_t lanes = t->lanes;                                                                        \
    for (ptrdiff_t r = 0; r < rows; r++) {                                                                   \
        double *own = cost + r * lanes;                                                                      \
        ptrdiff_t n = 0;                                                                                     \
        for (ptrdiff_t a = 0; a < t->n_numeric; a++) {                                                       \
            present[n] = t->numeric[a] * lanes;                                                              \
            n += x[r * t->p + t->numeric[a]] == x[r * t->p + t->numeric[a]];                                 \
        }                                                                                                    \
        if (n == t->n_numeric)                                                                               \
            continue;                                                                                        \
        for (ptrdiff_t k = 0; k < lanes; k += W) {                                                           \
            LANE sum = *(const LANE *)(t->base + k);                                                         \
            for (ptrdiff_t j = 0; j < n; j++)                                                                \
                sum += *(const LANE *)(t->offset + present[j] + k);                                          \
            *(LANE *)(own + k) = sum;                                                                        \
        }                                                                                                    \
        start[r] = own;                                                                                      \
    }                                                                                                        \
}
#define CRAFT_Z(cell, centre, scale)                                                    \
    ((cell) != (cell) ? 0.0                                                             \
     : ((cell) - (centre)) * (scale) > CRAFT_FAR ? CRAFT_FAR                            \
     : ((cell) - (centre)) * (scale) < -CRAFT_FAR ? -CRAFT_FAR : ((cell) - (centre)) * (scale))

/* offsets into the level table of the selected categorical columns */
#define FILL_LEVELS(type)                                                                        \
TARGET static void THIS(craft_fill_##type)(const craft_tables *t, const type *restrict codes,    \
                                           ptrdiff_t rows, int32_t *restrict level)              \
{                                                                                                \
    const int32_t *restrict start = t->level_offset;                                             \
    const ptrdiff_t q = t->q, selected = t->n_categorical;                                       \
    const int32_t lanes = (int32_t)t->lanes;                                                     \
    if (CRAFT_DENSE * selected >= q) {                                                           \
        ptrdiff_t run = rows == CRAFT_TILE ? q * t->repeat : q;                                  \
        for (ptrdiff_t from = 0; from < rows * q; from += run)                                   \
            for (ptrdiff_t j = 0; j < run; j++)                                                  \
                level[from + j] = start[j] + (int32_t)codes[from + j] * lanes;                   \
        return;                                                                                  \
    }                                                                                            \
    for (ptrdiff_t r = 0; r < rows; r++)                                                         \
        for (ptrdiff_t a = 0; a < selected; a++) {                                               \
            ptrdiff_t d = t->categorical[a];                                                     \
            level[r * q + d] = start[d] + (int32_t)codes[r * q + d] * lanes;                     \
        }                                                                                        \
}
FILL_NUMERIC(float)
FILL_NUMERIC(double)
FILL_LEVELS(uint8_t)
FILL_LEVELS(uint16_t)

/* ROWS rows, VECTORS vectors of lanes from lane `k` on */
#define ACCUMULATE(VECTORS)                                                             \
    {                                                                                   \
        LANE sum[ROWS][VECTORS];                                                        \
        CRAFT_UNROLL for (int r = 0; r < ROWS; r++)                                     \
            CRAFT_UNROLL for (int v = 0; v < VECTORS; v++)                              \
                sum[r][v] = *(const LANE *)(start[r0 + r] + k + v * W);                 \
        for (ptrdiff_t a = 0; a < n_numeric; a++) {                                     \
            const double *cells = z + r0 * p + numeric[a];                              \
            ptrdiff_t at = numeric[a] * lanes + k;                                      \
            for (int v = 0; v < VECTORS; v++) {                                         \
                LANE square = *(const LANE *)(square_table + at + v * W);               \
                LANE linear = *(const LANE *)(linear_table + at + v * W);               \
                for (int r = 0; r < ROWS; r++)                                          \
                    sum[r][v] += (square * cells[r * p] + linear) * cells[r * p];       \
            }                                                                           \
        }                                                                               \
        for (ptrdiff_t a = 0; a < n_categorical; a++) {                                 \
            const int32_t *offsets = level + r0 * q + categorical[a];                   \
            for (int r = 0; r < ROWS; r++) {                                            \
                const double *entry = table + offsets[r * q] + k;                       \
                for (int v = 0; v < VECTORS; v++)                                       \
                    sum[r][v] += *(const LANE *)(entry + v * W);                        \
            }                                                                           \
        }                                                                               \
        for (int r = 0; r < ROWS; r++)                                                  \
            for (int v = 0; v < VECTORS; v++)                                           \
                *(LANE *)(cost + (r0 + r) * lanes + k + v * W) = sum[r][v];             \
    }

TARGET static void THIS(craft_cells)(const craft_tables *t, const void *x, int single, const void *codes,
                                     int wide, ptrdiff_t first, ptrdiff_t rows, double *restrict z,
                                     int32_t *restrict level, double *restrict cost, ptrdiff_t *present,
                                     const double **start)
{
    const ptrdiff_t p = t->p, q = t->q;
    int missing = 0;
    CRAFT_FETCH(x, single ? sizeof(float) : sizeof(double), p)
    CRAFT_FETCH(codes, wide ? sizeof(uint16_t) : sizeof(uint8_t), q)
    for (int r = 0; r < CRAFT_TILE; r++)
        start[r] = t->constant;
    if (t->n_numeric && single) {
        missing = THIS(craft_fill_float)(t, (const float *)x + first * p, rows, z);
        if (missing)
            THIS(craft_missing_float)(t, (const float *)x + first * p, rows, cost, start, present);
    } else if (t->n_numeric) {
        missing = THIS(craft_fill_double)(t, (const double *)x + first * p, rows, z);
        if (missing)
            THIS(craft_missing_double)(t, (const double *)x + first * p, rows, cost, start, present);
    }
    if (t->n_categorical && wide)
        THIS(craft_fill_uint16_t)(t, (const uint16_t *)codes + first * q, rows, level);
    else if (t->n_categorical)
        THIS(craft_fill_uint8_t)(t, (const uint8_t *)codes + first * q, rows, level);
    for (ptrdiff_t r = rows; r < CRAFT_TILE; r++) {     /* a short last tile repeats its first row */
        start[r] = start[0];
        memcpy(z + r * p, z, sizeof(double) * p);
        memcpy(level + r * q, level, sizeof(int32_t) * q);
    }
}

TARGET static void THIS(craft_costs)(const craft_tables *t, const double *const *start, ptrdiff_t rows,
                                     const double *restrict z, const int32_t *restrict level,
                                     double *restrict cost)
{
    const ptrdiff_t n_numeric = t->n_numeric, n_categorical = t->n_categorical, lanes = t->lanes, p = t->p,
        q = t->q;
    const ptrdiff_t *numeric = t->numeric, *categorical = t->categorical;
    const double *square_table = t->square, *linear_table = t->linear, *table = t->level;
    for (ptrdiff_t r0 = 0; r0 < rows; r0 += ROWS) {
        ptrdiff_t k = 0;
        for (; k + 2 * W <= lanes; k += 2 * W)
            ACCUMULATE(2)
        for (; k < lanes; k += W)
            ACCUMULATE(1)
    }
}

#undef ROWS
#undef FILL_VECTORS
#undef FILL_NUMERIC
#undef FILL_LEVELS
#undef CRAFT_Z
#undef ACCUMULATE
