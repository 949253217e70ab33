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
            *(LANE *)(work + i * COVARIANCE_TILE + v * W) = *(const LANE *)(cells + v * W)
                - ALL(LANE, mean[i]);
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

#undef VECTORS
