/* Rows of a table for the kernels: numeric cells of float64 or float32 (NaN: missing), codes of uint8 or
 * uint16, weights.
 *
 * The numeric columns are one block, or each lies by itself in one of two blocks (`columns`). */
#ifndef CRAFTC_TABLE_ROWS_H
#define CRAFTC_TABLE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *first;          /* the cell of row 0 */
    ptrdiff_t stride;           /* bytes from row to row */
} table_column;

typedef struct {
    const char *numeric;        /* (n, p), C-contiguous; NULL where there are `columns` */
    const table_column *columns; /* (p), NULL: one block */
    const char *codes;          /* (n, q), C-contiguous */
    const int64_t *weight;      /* (n), NULL: all one */
    ptrdiff_t n, p, q;
    int single, wide;           /* the numeric cells are float32, the codes are uint16 */
} table_rows;

/* row i of a table whose numeric columns are one block */
static inline const void *rows_numeric(const table_rows *t, ptrdiff_t i)
{
    return t->p ? t->numeric + i * t->p * (t->single ? sizeof(float) : sizeof(double)) : NULL;
}

/* the numeric cells of rows start..start + n - 1, copied to x (n, p) */
static inline void rows_copy_numbers(const table_rows *t, ptrdiff_t start, ptrdiff_t n, char *x)
{
    const ptrdiff_t p = t->p;
    if (!t->columns) {
        if (p)
            memcpy(x, rows_numeric(t, start), (size_t)(n * p) * (t->single ? sizeof(float) : sizeof(double)));
        return;
    }
    for (ptrdiff_t d = 0; d < p; d++) {
        const ptrdiff_t stride = t->columns[d].stride;
        const char *cell = t->columns[d].first + start * stride;
        if (t->single)
            for (ptrdiff_t i = 0; i < n; i++, cell += stride)
                ((float *)x)[i * p + d] = *(const float *)cell;
        else
            for (ptrdiff_t i = 0; i < n; i++, cell += stride)
                ((double *)x)[i * p + d] = *(const double *)cell;
    }
}

static inline const void *rows_codes(const table_rows *t, ptrdiff_t i)
{
    return t->q ? t->codes + i * t->q * (t->wide ? sizeof(uint16_t) : sizeof(uint8_t)) : NULL;
}

static inline double rows_number(const table_rows *t, ptrdiff_t i, ptrdiff_t d)
{
    const ptrdiff_t size = t->single ? sizeof(float) : sizeof(double);
    const char *cell = t->columns ? t->columns[d].first + i * t->columns[d].stride
        : t->numeric + (i * t->p + d) * size;
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
