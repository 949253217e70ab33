/* One clone of the leaf of _covariance.h, included once per instruction set by _lanes.h. */

#define VECTORS (COVARIANCE_TILE / W)

TARGET static void THIS(covariance_tile)(const double *restrict inverse, const double *restrict mean,
                                         const ptrdiff_t *restrict position, ptrdiff_t m, double start,
                                         const double *restrict z, const double *restrict background,
                                         double *restrict work, double *restrict total)
{
    LANE sum[VECTORS], y[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        sum[v] = ALL(LANE, start);
    for (ptrdiff_t i = 0; i < m; i++) {
        const double *cells = z + position[i] * COVARIANCE_TILE,
            *other = background + position[i] * COVARIANCE_TILE;
        for (int v = 0; v < VECTORS; v++) {
            const LANE apart = *(const LANE *)(cells + v * W) - ALL(LANE, mean[i]);
            *(LANE *)(work + i * COVARIANCE_TILE + v * W) = PICK(apart == apart, apart);
            y[v] = ALL(LANE, 0.0);
        }
        for (ptrdiff_t j = 0; j <= i; j++)
            for (int v = 0; v < VECTORS; v++)
                y[v] += *(const LANE *)(work + j * COVARIANCE_TILE + v * W) * ALL(LANE, inverse[i * m + j]);
        for (int v = 0; v < VECTORS; v++)
            sum[v] += ALL(LANE, 0.5) * y[v] * y[v] - *(const LANE *)(other + v * W);
    }
    for (int v = 0; v < VECTORS; v++)
        *(LANE *)(total + v * W) = sum[v];
}

TARGET static void THIS(covariance_white)(const double *restrict inverse, const ptrdiff_t *restrict position,
                                          ptrdiff_t m, double start, const double *restrict z,
                                          const double *restrict background, double *restrict white,
                                          double *restrict total)
{
    LANE sum[VECTORS], y[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        sum[v] = ALL(LANE, start);
    for (ptrdiff_t i = 0; i < m; i++) {
        for (int v = 0; v < VECTORS; v++)
            y[v] = ALL(LANE, 0.0);
        for (ptrdiff_t j = 0; j <= i; j++)
            for (int v = 0; v < VECTORS; v++)
                y[v] += *(const LANE *)(z + position[j] * COVARIANCE_TILE + v * W)
                    * ALL(LANE, inverse[i * m + j]);
        for (int v = 0; v < VECTORS; v++) {
            *(LANE *)(white + i * COVARIANCE_TILE + v * W) = y[v];
            sum[v] -= *(const LANE *)(background + position[i] * COVARIANCE_TILE + v * W);
        }
    }
    for (int v = 0; v < VECTORS; v++)
        *(LANE *)(total + v * W) = sum[v];
}

/* rows that share the loads of the means */
#define ROWS 4

TARGET static void THIS(covariance_distances)(const double *restrict mean, ptrdiff_t m, ptrdiff_t lanes,
                                              const double *restrict white, const double *restrict total,
                                              ptrdiff_t rows, double *restrict cost)
{
    for (ptrdiff_t from = 0; from < rows; from += ROWS)
        for (ptrdiff_t k = 0; k < lanes; k += W) {
            LANE sum[ROWS];
            for (int r = 0; r < ROWS; r++)
                sum[r] = ALL(LANE, 0.0);
            for (ptrdiff_t i = 0; i < m; i++) {
                const LANE own = *(const LANE *)(mean + i * lanes + k);
                const double *cells = white + i * COVARIANCE_TILE + from;
                for (int r = 0; r < ROWS; r++) {
                    const LANE apart = ALL(LANE, cells[r]) - own;
                    sum[r] += apart * apart;
                }
            }
            for (int r = 0; r < ROWS && from + r < rows; r++) {
                const double last = white[(m - 1) * COVARIANCE_TILE + from + r];
                if (last == last)
                    *(LANE *)(cost + (from + r) * lanes + k)
                        += ALL(LANE, total[from + r]) + ALL(LANE, 0.5) * sum[r];
            }
        }
}

#undef ROWS
#undef VECTORS
