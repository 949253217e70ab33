/* Rows of a table for the kernels: numeric cells of float64 or float32 (NaN: missing), codes of uint8 or
 * uint16, weights. */
#ifndef CRAFTC_TABLE_ROWS_H
#define CRAFTC_TABLE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *numeric;        /* (n, p), C-contiguous */
    const char *codes;          /* (n, q), C-contiguous */
    const int64_t *weight;      /* (n), NULL: all one */
    ptrdiff_t n, p, q;
    int single, wide;           /* the numeric cells are float32, the codes are uint16 */
} table_rows;

/* the numeric cells of row i */
static inline const void *rows_numeric(const table_rows *t, ptrdiff_t i)
{
    return t->p ? t->numeric + i * t->p * (t->single ? sizeof(float) : sizeof(double)) : NULL;
}

/* the numeric cells of rows start..start + n - 1, copied to x (n, p) */
static inline void rows_copy_numbers(const table_rows *t, ptrdiff_t start, ptrdiff_t n, char *x)
{
    if (t->p)
        memcpy(x, rows_numeric(t, start), (size_t)(n * t->p) * (t->single ? sizeof(float) : sizeof(double)));
}

static inline const void *rows_codes(const table_rows *t, ptrdiff_t i)
{
    return t->q ? t->codes + i * t->q * (t->wide ? sizeof(uint16_t) : sizeof(uint8_t)) : NULL;
}

static inline double rows_number(const table_rows *t, ptrdiff_t i, ptrdiff_t d)
{
    const ptrdiff_t size = t->single ? sizeof(float) : sizeof(double);
    const char *cell = t->numeric + (i * t->p + d) * size;
    return t->single ? (double)*(const float *)cell : *(const double *)cell;
}

static inline ptrdiff_t rows_code(const table_rows *t, ptrdiff_t i, ptrdiff_t d)
{
    const ptrdiff_t at = i * t->q + d;
    return t->wide ? ((const uint16_t *)t->codes)[at] : ((const uint8_t *)t->codes)[at];
}

static inline int64_t rows_weight(const table_rows *t, ptrdiff_t i)
{
    return t->weight ? t->weight[i] : 1;
}

#endif
