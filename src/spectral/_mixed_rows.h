/* Rows of a mixed table in memory: a numeric block of float64 or float32, and a block of codes of uint8 or
 * uint16. */
#ifndef CRAFTC_MIXED_ROWS_H
#define CRAFTC_MIXED_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const void *numeric;            /* (n, width), NaN: missing */
    const void *codes;              /* (n, q) */
    ptrdiff_t width, q;
    int single, wide;               /* the numeric block is float32, the codes are uint16 */
    ptrdiff_t p1, P, C;             /* columns and variables used, and states of the variables: levels and a
                                       missing state */
    const ptrdiff_t *column;        /* (p1) of the numeric block */
    const ptrdiff_t *variable;      /* (P) columns of the codes */
    const ptrdiff_t *first_state;   /* (P) */
} mixed_rows;

static inline double mixed_number(const mixed_rows *t, ptrdiff_t i, ptrdiff_t s)
{
    const ptrdiff_t at = i * t->width + t->column[s];
    return t->single ? (double)((const float *)t->numeric)[at] : ((const double *)t->numeric)[at];
}

static inline ptrdiff_t mixed_state(const mixed_rows *t, ptrdiff_t i, ptrdiff_t v)
{
    const ptrdiff_t at = i * t->q + t->variable[v];
    return t->first_state[v]
        + (t->wide ? (ptrdiff_t)((const uint16_t *)t->codes)[at]
           : (ptrdiff_t)((const uint8_t *)t->codes)[at]);
}

#endif
