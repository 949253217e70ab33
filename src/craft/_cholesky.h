/* Cholesky factors of small symmetric matrices, in row-major order. */
#ifndef CRAFTC_CHOLESKY_H
#define CRAFTC_CHOLESKY_H

#include <math.h>
#include <stddef.h>

/* The lower factor of A (m, m) in place, and half the logarithm of the determinant of A; 0 if A is not
 * positive definite. */
static inline int cholesky(double *A, ptrdiff_t m, double *half_log)
{
    *half_log = 0.0;
    for (ptrdiff_t i = 0; i < m; i++)
        for (ptrdiff_t j = 0; j <= i; j++) {
            double left = A[i * m + j];
            for (ptrdiff_t c = 0; c < j; c++)
                left -= A[i * m + c] * A[j * m + c];
            if (j < i)
                A[i * m + j] = left / A[j * m + j];
            else if (left > 0.0) {
                A[i * m + i] = sqrt(left);
                *half_log += log(A[i * m + i]);
            }
            else
                return 0;
        }
    return 1;
}

/* W = L^-1 (m, m) of a lower triangular matrix. */
static inline void lower_inverse(const double *L, ptrdiff_t m, double *W)
{
    for (ptrdiff_t j = 0; j < m; j++) {
        for (ptrdiff_t i = 0; i < j; i++)
            W[i * m + j] = 0.0;
        W[j * m + j] = 1.0 / L[j * m + j];
        for (ptrdiff_t i = j + 1; i < m; i++) {
            double total = 0.0;
            for (ptrdiff_t c = j; c < i; c++)
                total += L[i * m + c] * W[c * m + j];
            W[i * m + j] = -total / L[i * m + i];
        }
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
    for (ptrdiff_t i = 0; i < m; i++)
        for (ptrdiff_t j = 0; j <= i; j++) {
            double total = 0.0;
            for (ptrdiff_t d = i; d < m; d++)
                total += W[d * m + i] * W[d * m + j];
            A[i * m + j] = A[j * m + i] = total;
        }
}

#endif
