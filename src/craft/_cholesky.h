/* Cholesky factors of small symmetric matrices, in row-major order. */
#ifndef CRAFTC_CHOLESKY_H
#define CRAFTC_CHOLESKY_H

#include <math.h>
#include <stddef.h>

/* The lower factor of A (m, m) in place, with its transpose above the diagonal, and half the logarithm of the
 * determinant of A, whose lower triangle is read; 0 if A is not positive definite. */
static inline int cholesky(double *A, ptrdiff_t m, double *half_log)
{
    *half_log = 0.0;
    for (ptrdiff_t i = 0; i < m; i++) {
        double *row = A + i * m;
        for (ptrdiff_t c = 0; c < i; c++) {
            const double *above = A + c * m;
            double own = row[c] / above[c];
            row[c] = own;
            for (ptrdiff_t j = c + 1; j < i; j++)
                row[j] -= own * above[j];
            row[i] -= own * own;
        }
        if (!(row[i] > 0.0))
            return 0;
        row[i] = sqrt(row[i]);
        *half_log += log(row[i]);
        for (ptrdiff_t c = 0; c < i; c++)
            A[c * m + i] = row[c];
    }
    return 1;
}

/* W = L^-1 (m, m) of a lower triangular matrix. */
static inline void lower_inverse(const double *L, ptrdiff_t m, double *W)
{
    for (ptrdiff_t i = 0; i < m; i++) {
        double *row = W + i * m;
        for (ptrdiff_t j = 0; j < m; j++)
            row[j] = 0.0;
        for (ptrdiff_t c = 0; c < i; c++)
            for (ptrdiff_t j = 0; j <= c; j++)
                row[j] += L[i * m + c] * W[c * m + j];
        for (ptrdiff_t j = 0; j < i; j++)
            row[j] = -row[j] / L[i * m + i];
        row[i] = 1.0 / L[i * m + i];
    }
}

/* x = L^-1 x (m) of a lower triangular matrix; returns |x|^2. */
static inline double lower_solve(const double *L, ptrdiff_t m, double *x)
{
    double total = 0.0;
    for (ptrdiff_t i = 0; i < m; i++) {
        for (ptrdiff_t j = 0; j < i; j++)
            x[i] -= L[i * m + j] * x[j];
        x[i] /= L[i * m + i];
        total += x[i] * x[i];
    }
    return total;
}

/* L^-T L^-1 in place of the lower factor L = A (m, m), and W = L^-1 (m, m). */
static inline void inverse_of_factor(double *A, ptrdiff_t m, double *W)
{
    lower_inverse(A, m, W);
    for (ptrdiff_t i = 0; i < m * m; i++)
        A[i] = 0.0;
    for (ptrdiff_t d = 0; d < m; d++)
        for (ptrdiff_t i = 0; i <= d; i++)
            for (ptrdiff_t j = 0; j <= i; j++)
                A[i * m + j] += W[d * m + i] * W[d * m + j];
    for (ptrdiff_t i = 0; i < m; i++)
        for (ptrdiff_t j = 0; j < i; j++)
            A[j * m + i] = A[i * m + j];
}

#endif
