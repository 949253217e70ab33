/* The node-wise pseudo-likelihood of a mixed table: one pass over the rows.
 *
 * Numeric columns are normalised on a grid of nodes u_m, each on its own range of one row of nodes;
 * categorical variables by a softmax or a sigmoid. A categorical neighbour acts through tables with a row for
 * every state: a level of a variable, or its missing state. Variables of few states share a table, whose rows
 * are the combinations of their states. A pass therefore loops over these joints, not over indicators.
 *
 * The similarity is g(u, a) = sign min(U, A) / max(U, A), U = max(|u|, eps), A = max(|a|, eps); its sign is
 * that of u a where both are beyond eps, else +. As A / U or U / A is the smaller, min(U, A) / max(U, A) =
 * min(U / A, A / U). Numbers of a column repeat: the similarities to some of those seen last are kept, by a
 * hash of the number. */
#ifndef CRAFTC_SPECTRAL_H
#define CRAFTC_SPECTRAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "spectral/_mixed_rows.h"
#include "common/_simd.h"

/* lanes in which sums are kept; tables over nodes, and over indicators, are padded to a multiple */
#define SP_LANES 8
#define SP_TILE 72          /* nodes of the grid processed together, if there are as many */
#define SP_TOGETHER 4       /* vectors of indicators processed together */
#define SP_LARGE 700.0      /* energies are clipped here, so that exp stays finite */
#define SP_ROOM 0x40000     /* doubles in which a thread keeps similarities to numbers of former rows */
#define SP_SLOTS 256        /* most numbers of a column whose similarities are kept */
#define SP_MISSING (-2)     /* indicator of a missing state */

/* a row of numbers to which similarities are computed: nodes of the grid, or codes */
typedef struct {
    const double *size;     /* (width) max(|a|, eps); 0 in the padding */
    const double *inverse;  /* (width) */
    const double *sign;     /* (3, stride) of the similarity to a number below -eps, near 0, and above eps */
    ptrdiff_t width, stride;
} sp_scale;

typedef struct {
    mixed_rows rows;
    ptrdiff_t p2;                   /* indicators */
    ptrdiff_t seen;                 /* numbers a numeric node sees: the p1 columns, and in the dense case also
                                       p2 low-rank indicators */
    int softmax;                    /* indicators of a variable are normalised together */
    double eps;
    const double *centre, *scale;   /* (p1) */
    const ptrdiff_t *first;         /* (P + 1) first indicators of the variables */
    ptrdiff_t J, R;                 /* joints of variables, and combinations of states: one row of the tables
                                       each */
    const ptrdiff_t *joint;         /* (P) of a variable */
    const ptrdiff_t *stride;        /* (P) rows from one state of a variable to the next */
    const ptrdiff_t *first_row;     /* (J) */
    const ptrdiff_t *indicator;     /* (C) the indicator that a state switches on, -1 if none, SP_MISSING for
                                       the missing state */
    const double *low_rank;         /* (n, p1 + p2) factorised table; NULL where codes represent it */
    ptrdiff_t M;                    /* room for the nodes of a numeric column: the largest n_nodes */
    ptrdiff_t shared;               /* the largest n_nodes of the columns that share the nodes from 0 on */
    const ptrdiff_t *first_node;    /* (p1) of the grid */
    const ptrdiff_t *n_nodes;       /* (p1) padded to a multiple of SP_LANES */
    ptrdiff_t slots;                /* numbers of a column whose similarities are kept, a power of two; 0:
                                       none */
    sp_scale grid, minus, plus;     /* nodes of all numeric columns; codes of indicators that are off and on
                                       */
} sp_table;

typedef struct {
    const double *unary;            /* (p1, M) ln of the weight of a node plus its unary energy; -inf in the
                                       padding */
    const double *pair;             /* (p1, seen) weights between numeric columns and the numbers they see,
                                       which are not their own */
    const double *node_table;       /* (R, p1, M) energies of the numeric nodes under a combination; NULL:
                                       they see numbers only */
    const double *bias;             /* (L) of the indicators, L = p2 and padding */
    const double *bias_table;       /* (R, L) what a combination adds to the energy of every indicator */
    const double *cross;            /* (p1, L) weights between numeric columns and indicators */
} sp_weights;

/* expected statistics, summed over rows */
typedef struct {
    double *log_z;                  /* (1) */
    double *node;                   /* (p1, M) expected visits of the nodes of the grid; unused with
                                       `node_table`, whose sum it is */
    double *pair;                   /* (p1, seen, SP_LANES) expected similarity to the numbers seen */
    double *node_table;             /* (R, p1, M) expected visits by combination */
    double *bias_table;             /* (R, L) residuals of the indicators, y - q, by combination */
    double *cross;                  /* (p1, L) residuals times the change of similarity when the indicator is
                                       switched on */
} sp_sums;

typedef struct {
    double *pair;                   /* (seen, slots, all nodes) similarities of nodes to kept numbers; (seen,
                                       M) if none are kept */
    double *cross;                  /* (p1, slots, L) changes of similarity; (p1, L) if none are kept */
    double *pair_number;            /* (seen, slots) the kept numbers, NaN: none yet */
    double *cross_number;           /* (p1, slots) */
    const double **similar;         /* (seen) similarities of the nodes at hand to the numbers of a row */
    const double **change;          /* (p1) changes of similarity of a row */
    double *grid;                   /* (p1, M) energies, then weights, of the nodes */
    double *largest;                /* (p1) largest energies, then sums of the weights */
    double *energy;                 /* (L) of the indicators, then their residuals */
    double *shift;                  /* (L) */
    double *x;                      /* (p1 + seen) numbers of a row, scaled: its own, then those seen by its
                                       neighbours */
    ptrdiff_t *state;               /* (P) */
    ptrdiff_t *row;                 /* (J) of the tables */
    ptrdiff_t *known;               /* (seen) which numbers are not missing */
} sp_scratch;

/* What indicators add to the tables of the numeric nodes. A combination of states has terms: term v < P for
 * every variable that is not missing, term P + l for every indicator l that is on. */
typedef struct {
    const ptrdiff_t *start;         /* (R + 1) first terms of the combinations */
    const ptrdiff_t *term;
    const double *off, *rise;       /* (p2, all nodes) similarities of nodes to an indicator that is off, and
                                       the change when it is on */
} sp_terms;

static inline ptrdiff_t sp_padded(ptrdiff_t n)
{
    return (n + SP_LANES - 1) / SP_LANES * SP_LANES;
}

/* Row i: its own numbers (NaN: missing), its states, and the numbers that its neighbours see; returns how
 * many of these are known. */
static inline ptrdiff_t sp_row(const sp_table *t, ptrdiff_t i, sp_scratch *w)
{
    const ptrdiff_t p1 = t->rows.p1;
    double *own = w->x, *shown = w->x + p1;
    ptrdiff_t known = 0;
    for (ptrdiff_t s = 0; s < p1; s++)
        own[s] = shown[s] = (mixed_number(&t->rows, i, s) - t->centre[s]) * t->scale[s];
    for (ptrdiff_t j = 0; j < t->J; j++)
        w->row[j] = t->first_row[j];
    for (ptrdiff_t v = 0; v < t->rows.P; v++) {
        w->state[v] = mixed_state(&t->rows, i, v);
        w->row[t->joint[v]] += (w->state[v] - t->rows.first_state[v]) * t->stride[v];
    }
    for (ptrdiff_t v = 0; t->low_rank && v < t->rows.P; v++)
        for (ptrdiff_t j = t->first[v]; j < t->first[v + 1]; j++)
            shown[p1 + j] = t->indicator[w->state[v]] == SP_MISSING ? NAN
                : t->low_rank[i * (p1 + t->p2) + p1 + j];
    for (ptrdiff_t s = 0; s < t->seen; s++)
        if (shown[s] == shown[s])
            w->known[known++] = s;
    return known;
}

/* the slot of a number among `slots`, a power of two */
static inline ptrdiff_t sp_slot(double x, ptrdiff_t slots)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (ptrdiff_t)(bits * 0x9e3779b97f4a7c15u >> 32) & (slots - 1);
}

#define LEAVES "spectral/_spectral_rows.h"
#include "common/_lanes.h"

/* rows [start, stop) */
static inline void sp_rows(const sp_table *t, const sp_weights *w, ptrdiff_t start, ptrdiff_t stop,
                           sp_sums *sums, sp_scratch *scratch)
{
    SIMD_DISPATCH(sp_rows, (t, w, start, stop, sums, scratch));
}

/* rows [start, stop): the statistics of the data, which do not depend on the parameters */
static inline void sp_observe(const sp_table *t, ptrdiff_t start, ptrdiff_t stop, double *powers, double *own,
                              sp_scratch *scratch)
{
    SIMD_DISPATCH(sp_observe, (t, start, stop, powers, own, scratch));
}

/* out (R, p1, M) = energies of the nodes of column s under every combination, by weights (p1, p2); known (P,
 * M) is room */
static inline void sp_combine(const sp_table *t, const sp_terms *c, ptrdiff_t s, const double *weight,
                              double *known, double *out)
{
    SIMD_DISPATCH(sp_combine, (t, c, s, weight, known, out));
}

/* lanes (p1, p2, SP_LANES) += similarities of the indicators to the nodes of column s, times visits (R, p1,
 * M); known (P, M) is room of zeros */
static inline void sp_visited(const sp_table *t, const sp_terms *c, ptrdiff_t s, const double *visits,
                              double *known, double *lanes)
{
    SIMD_DISPATCH(sp_visited, (t, c, s, visits, known, lanes));
}

#endif
