/* The node-wise pseudo-likelihood of a mixed table: what a pass over the rows leaves.
 *
 * Numeric nodes are normalised on a grid of M nodes u_m; categorical variables by a softmax or a sigmoid. A categorical neighbour enters
 * by tables with a row for every cell: a level of a variable, or its hole. Variables of few cells share a table, whose rows are the
 * combinations of these. So a pass loops over such joints, not over indicators.
 *
 * The similarity is g(u, a) = sign min(U, A) / max(U, A), U = max(|u|, eps), A = max(|a|, eps); its sign is that of u a where both are
 * beyond eps, else +. As A / U or U / A is the smaller, min(U, A) / max(U, A) = min(U / A, A / U). */
#ifndef CRAFTC_SPECTRAL_H
#define CRAFTC_SPECTRAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_mixed_rows.h"
#include "_simd.h"

#define SP_LANES 8          /* tables are padded to a multiple of these, in which sums over lanes are kept */
#define SP_TILE 40          /* nodes of the grid that are worked on together: tables over nodes are padded to a multiple of these */
#define SP_TOGETHER 4       /* vectors of indicators that are worked on together */
#define SP_LARGE 700.0      /* energies are cut here, so that exp stays finite */
#define SP_UNSEEN (-2)      /* hit of a hole */

/* numbers that others are compared with: nodes of the grid, or codes */
typedef struct {
    const double *size;     /* (width) max(|a|, eps); 0 in the padding */
    const double *inverse;  /* (width) */
    const double *sign;     /* (3, width) of the similarity to a number below -eps, near 0, and above eps */
    ptrdiff_t width;
} sp_scale;

typedef struct {
    mixed_rows rows;
    ptrdiff_t p2;           /* indicators */
    ptrdiff_t seen;         /* numbers a numeric node sees: the p1 columns, or besides all p2 factorised indicators */
    int softmax;            /* indicators of a variable are normalised together */
    double eps;
    const double *centre, *scale;   /* (p1) */
    const ptrdiff_t *first; /* (P + 1) indicators of a variable */
    ptrdiff_t J, R;         /* joints of variables, and rows of the tables: the combinations of their members' cells */
    const ptrdiff_t *joint; /* (P) of a variable */
    const ptrdiff_t *stride;        /* (P) rows from one cell of a variable to the next */
    const ptrdiff_t *first_row;     /* (J) */
    const ptrdiff_t *hit;   /* (C) the indicator that a cell switches on, -1 if none, SP_UNSEEN for a hole */
    const double *hat;      /* (n, p1 + p2) factorised table; NULL where codes stand for it */
    sp_scale grid, minus, plus;     /* nodes of the grid; codes of indicators that are off and on */
} sp_table;

typedef struct {
    const double *unary;    /* (p1, M) ln of the weight of a node and its unary energy; -inf in the padding */
    const double *near;     /* (p1, seen) weights of the numbers a numeric node sees */
    const double *table;    /* (R, p1, M) energies of the numeric nodes under a combination; NULL: they see numbers only */
    const double *bias;     /* (L) of the indicators, L = p2 and padding */
    const double *cell;     /* (R, L) what a combination adds to every indicator */
    const double *lift;     /* (p1, L) weights between numeric columns and indicators */
} sp_weights;

/* sums over rows */
typedef struct {
    double *log_z;          /* (1) */
    double *node;           /* (p1, M) expected visits of the nodes of the grid */
    double *near;           /* (p1, seen, SP_LANES) expected similarity to the numbers seen */
    double *table;          /* (R, p1, M) expected visits by combination */
    double *bias;           /* (L) what is left of the indicators: y - q */
    double *cell;           /* (R, L) the same by combination */
    double *lift;           /* (p1, L) the same times the similarity that switching the indicator on adds */
} sp_sums;

typedef struct {
    double *near;           /* (seen, M) similarities of the nodes of the grid to what a row holds */
    double *lift;           /* (p1, L) */
    double *grid;           /* (p1, M) energies, then weights of the nodes of the grid */
    double *most;           /* (p1) largest energies, then sums of the weights */
    double *energy;         /* (L) of the indicators, then what is left of them */
    double *shift;          /* (L) */
    double *x;              /* (p1 + seen) a row's numbers, scaled: its own, then those it sees */
    ptrdiff_t *cell;        /* (P) */
    ptrdiff_t *row;         /* (J) of the tables */
    ptrdiff_t *there;       /* (seen) which of these are no holes */
} sp_scratch;

static inline ptrdiff_t sp_padded(ptrdiff_t n)
{
    return (n + SP_LANES - 1) / SP_LANES * SP_LANES;
}

/* Row i: its own numbers (NaN: a hole), its cells, and which of the numbers it shows its neighbours are there. */
static inline ptrdiff_t sp_row(const sp_table *t, ptrdiff_t i, sp_scratch *w)
{
    const ptrdiff_t p1 = t->rows.p1;
    double *own = w->x, *shown = w->x + p1;
    ptrdiff_t there = 0;
    for (ptrdiff_t s = 0; s < p1; s++)
        own[s] = shown[s] = (mixed_number(&t->rows, i, s) - t->centre[s]) * t->scale[s];
    for (ptrdiff_t j = 0; j < t->J; j++)
        w->row[j] = t->first_row[j];
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        w->cell[v] = mixed_cell(&t->rows, i, v);
        w->row[t->joint[v]] += (w->cell[v] - t->rows.first_cell[v]) * t->stride[v];
    }
    for (ptrdiff_t v = 0; t->hat && v < t->rows.P; v++)
        for (ptrdiff_t j = t->first[v]; j < t->first[v + 1]; j++)
            shown[p1 + j] = t->hit[w->cell[v]] == SP_UNSEEN ? NAN : t->hat[i * (p1 + t->p2) + p1 + j];
    for (ptrdiff_t s = 0; s < t->seen; s++)
        if (shown[s] == shown[s])
            w->there[there++] = s;
    return there;
}

#define LEAVES "_spectral_rows.h"
#include "_lanes.h"

/* rows [start, stop) */
static inline void sp_rows(const sp_table *t, const sp_weights *w, ptrdiff_t start, ptrdiff_t stop, sp_sums *sums, sp_scratch *scratch)
{
    SIMD_DISPATCH(sp_rows, (t, w, start, stop, sums, scratch));
}

/* rows [start, stop): sums of a row's own numbers and of their similarity to what the row holds, which no parameter enters */
static inline void sp_observe(const sp_table *t, ptrdiff_t start, ptrdiff_t stop, double *powers, double *own, sp_scratch *scratch)
{
    SIMD_DISPATCH(sp_observe, (t, start, stop, powers, own, scratch));
}

#endif
