/* Exponential tilts of the distribution b of a column's levels: p(l) = b(l) exp(theta . s(l) - A(theta)).
 *
 * s1 and s2 have mean 0 and covariance I under b. A column may have an atom, a level with a share of its own:
 * a third statistic, 1 there and 0 elsewhere. Then s1 and s2 are 0 at the atom, b is the distribution of the
 * other levels, and by the chain rule the fit is that of two shares and that of a tilt of b. Arrays are
 * padded to a multiple of CRAFT_TILT_PAD levels with b = 0. */
#ifndef CRAFTC_CRAFT_TILT_H
#define CRAFTC_CRAFT_TILT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "common/_simd.h"

#define CRAFT_TILT_PAD 8        /* levels */
#define CRAFT_TILT_STEPS 60     /* of Newton's method; 4 to 8 suffice but for extreme cells */
#define CRAFT_TILT_NEAR 1e-10   /* squared Newton decrement at which one more step is exact to rounding */
#define CRAFT_TILT_RANKED 1e-4  /* and at which its gain is known to about 1e-6 nats a row */
#define CRAFT_TILT_CLOSE 0.2    /* squared decrement from which whole steps converge at once */
#define CRAFT_TILT_NARROW 1e-6  /* least variance of a normal density */
#define CRAFT_TILT_FEW 16       /* levels up to which a fit costs little */
#define CRAFT_TILT_RISE 0.1     /* share of the squared decrement by which a whole step must raise it */
#define CRAFT_TILT_FLATTER 3e-4 /* share of the curvature along a whole step that must be left after it */

#define LEAVES "craft/_craft_tilt_lanes.h"
#include "common/_lanes.h"

typedef struct {
    ptrdiff_t n;                /* levels, padded */
    const double *b, *s1, *s2;
    const double *x1, *x2;      /* s1 and s2 of levels that occur; 0 of others, which set no scale */
    double skew, spread;        /* E s1^3, and s2 = (s1^2 - skew s1 - 1) / spread; spread 0: it is not */
    const double *phase;        /* of a periodic column; otherwise NULL */
    ptrdiff_t atom;             /* level; -1: none */
    double atom_share;          /* of the whole table; 0: none */
} craft_tilt;

typedef struct {
    double first, second, atom, log_total;      /* theta and A(theta) */
} craft_theta;

/* cells of one column: their number, in counts, and the sums of their statistics */
typedef struct {
    double weight, first, second, atom;
} craft_sums;

/* A(theta), mean and covariance of (s1, s2) under the tilt */
typedef struct {
    double log_total, mean1, mean2, c11, c12, c22;
} craft_tilted;

static inline craft_tilted craft_tilted_at(const craft_tilt *t, double first, double second)
{
    double sums[7];     /* the largest exponent, then sums of e, e s1, e s2, e s1^2, e s1 s2, e s2^2 */
    craft_tilted out;
    SIMD_DISPATCH(tilt_sums, (t->n, t->b, t->x1, t->x2, first, second, sums));
    out.log_total = log(sums[1]) + sums[0];
    out.mean1 = sums[2] / sums[1];
    out.mean2 = sums[3] / sums[1];
    out.c11 = sums[4] / sums[1] - out.mean1 * out.mean1;
    out.c12 = sums[5] / sums[1] - out.mean1 * out.mean2;
    out.c22 = sums[6] / sums[1] - out.mean2 * out.mean2;
    return out;
}

/* The share of a Newton step d that always raises the function: along d, the third derivative of A is at most
 * `reach` times the second one, with `reach` the largest d . s less its mean. */
static inline double craft_tilt_length(const craft_tilt *t, double d1, double d2, double mean)
{
    double reach = 0.0;
    for (ptrdiff_t l = 0; l < t->n; l++) {
        const double x = d1 * t->x1[l] + d2 * t->x2[l] - mean;
        reach = x > reach ? x : reach;
    }
    return reach > 1e-6 ? log(1.0 + reach) / reach : 1.0;
}

/* Newton's step d from a tilt towards the one whose mean of (s1, s2) is (m1, m2), and the mean of d . s;
 * returns the squared decrement, 0 where there is no step. */
static inline double craft_tilt_step(const craft_tilted *at, double m1, double m2, double *d1, double *d2,
                                     double *mean)
{
    const double g1 = m1 - at->mean1, g2 = m2 - at->mean2, ridge = 1e-12 * (at->c11 + at->c22) + 1e-300;
    const double c11 = at->c11 + ridge, c22 = at->c22 + ridge, det = c11 * c22 - at->c12 * at->c12;
    *d1 = (c22 * g1 - at->c12 * g2) / det;
    *d2 = (c11 * g2 - at->c12 * g1) / det;
    *mean = *d1 * at->mean1 + *d2 * at->mean2;
    return det > 0.0 ? g1 * *d1 + g2 * *d2 : 0.0;
}

/* The mean of s1^2 in cells whose means of s1 and s2 are m1 and m2, where s2 has a spread. */
static inline double craft_mean_square(const craft_tilt *t, double m1, double m2)
{
    return t->spread * m2 + t->skew * m1 + 1.0;
}

/* The tilt whose mean of (s1, s2) is (m1, m2), inside the convex hull of the levels; returns its relative
 * entropy over b, theta . m - A(theta) >= 0. Newton's method on this concave function: from the theta of a
 * normal b, if that is close, and otherwise from 0. A step is shortened where it would not raise the function
 * enough, or would lead where it is almost straight: there the tilt is a single level, and the next step could
 * be of any length. The last step is the first one of a squared decrement below `near`. */
static inline double craft_tilt_climb(const craft_tilt *t, double m1, double m2, double near,
                                      craft_theta *theta)
{
    double first = 0.0, second = 0.0, value = 0.0, d1 = m1, d2 = m2;    /* the first step from 0 */
    double decrement = m1 * m1 + m2 * m2, mean = 0.0;
    const double variance = craft_mean_square(t, m1, m2) - m1 * m1;
    if (decrement >= near && t->spread > 0.0 && variance > CRAFT_TILT_NARROW) {
        const double square = 0.5 - 0.5 / variance, to1 = m1 / variance + square * t->skew;
        const double to2 = square * t->spread;
        const craft_tilted at = craft_tilted_at(t, to1, to2);
        const double reached = to1 * m1 + to2 * m2 - at.log_total;
        double s1, s2, mean_of_step;
        const double left = craft_tilt_step(&at, m1, m2, &s1, &s2, &mean_of_step);
        if (reached > 0.0 && left > 0.0 && left < CRAFT_TILT_CLOSE) {
            first = to1, second = to2, value = reached;
            d1 = s1, d2 = s2, decrement = left, mean = mean_of_step;
        }
    }
    for (int step = 0; step < CRAFT_TILT_STEPS && decrement >= near; step++) {
        double length = 1.0, reached;
        craft_tilted at = craft_tilted_at(t, first + d1, second + d2);
        reached = (first + d1) * m1 + (second + d2) * m2 - at.log_total;
        if (reached < value + CRAFT_TILT_RISE * decrement
            || d1 * (d1 * at.c11 + 2.0 * d2 * at.c12) + d2 * d2 * at.c22 < CRAFT_TILT_FLATTER * decrement) {
            length = craft_tilt_length(t, d1, d2, mean);
            at = craft_tilted_at(t, first + length * d1, second + length * d2);
            reached = (first + length * d1) * m1 + (second + length * d2) * m2 - at.log_total;
        }
        if (reached < value) {  /* rounding ends the climb */
            decrement = 0.0;
            break;
        }
        first += length * d1;
        second += length * d2;
        value = reached;
        decrement = craft_tilt_step(&at, m1, m2, &d1, &d2, &mean);
    }
    if (decrement > 0.0 && decrement < near) {  /* what the last step adds is known */
        first += d1;
        second += d2;
        value += 0.5 * decrement;
    }
    value = value > 0.0 ? value : 0.0;
    theta->first = first;
    theta->second = second;
    theta->log_total = first * m1 + second * m2 - value;
    return value;
}

static inline craft_theta craft_no_tilt(void)
{
    const craft_theta none = {0.0, 0.0, 0.0, 0.0};
    return none;
}

/* The tilt of cells, each count with the weight `count_weight`, and of one row of prior; returns its gain over
 * the distribution of the whole table. */
static inline double craft_tilt_fit(const craft_tilt *t, double count_weight, craft_sums cells, double near,
                                    craft_theta *theta)
{
    const double total = count_weight * cells.weight + 1.0;
    const double here = count_weight * cells.atom + t->atom_share, rest = total - here;
    double gain;
    *theta = craft_no_tilt();
    if (cells.weight == 0.0)
        return 0.0;
    gain = rest * craft_tilt_climb(t, count_weight * cells.first / rest, count_weight * cells.second / rest,
                                   near, theta);
    if (t->atom >= 0) {
        const double own = log(here / (total * t->atom_share));
        const double others = log(rest / (total * (1.0 - t->atom_share)));
        const double shares = here * own + rest * others;
        theta->log_total -= others;
        theta->atom = own + theta->log_total;
        gain += shares > 0.0 ? shares : 0.0;
    }
    return gain;
}

/* More than that gain: with m the mean of orthonormal statistics of total cells, total * |m|^2 where |m| is
 * small, because then b(l) (1 + m . s(l)) is a distribution of that mean, too, and the tilt has the least
 * entropy over b. */
static inline double craft_tilt_most(const craft_tilt *t, double count_weight, craft_sums cells)
{
    const double total = count_weight * cells.weight + 1.0;
    const double here = count_weight * cells.atom + t->atom_share, rest = total - here;
    const double m1 = count_weight * cells.first / rest, m2 = count_weight * cells.second / rest;
    const double square = m1 * m1 + m2 * m2;
    double shares = 0.0;
    if (t->atom >= 0) {
        const double apart = here / total - t->atom_share;
        shares = total * apart * apart / (t->atom_share * (1.0 - t->atom_share));
    }
    return square < 0.5 ? shares + rest * square : INFINITY;
}

/* Whether differences of gains are close to those of normal densities: s1 and s2 are a score and its square,
 * the levels are many, and none has a share of its own. */
static inline int craft_is_normal(const craft_tilt *t)
{
    return t->spread > 0.0 && t->n > CRAFT_TILT_FEW && t->atom < 0;
}

/* The gain of cells and of one row of prior if b were the standard normal density: the relative entropy over
 * it of the normal density with their mean and variance. */
static inline double craft_normal_gain(const craft_tilt *t, double count_weight, craft_sums cells)
{
    const double total = count_weight * cells.weight + 1.0;
    const double m1 = count_weight * cells.first / total, m2 = count_weight * cells.second / total;
    const double square = craft_mean_square(t, m1, m2), variance = square - m1 * m1;
    return 0.5 * total * (square - 1.0 - log(variance > CRAFT_TILT_NARROW ? variance : CRAFT_TILT_NARROW));
}

/* The log likelihood of cells under that density of a group, over the standard normal one. */
static inline double craft_normal_likelihood(const craft_tilt *t, double count_weight, craft_sums cells,
                                             craft_sums group)
{
    const double total = count_weight * group.weight + 1.0, n = count_weight * cells.weight;
    const double mean = count_weight * group.first / total, sum = count_weight * cells.first;
    const double square = craft_mean_square(t, mean, count_weight * group.second / total);
    const double own = count_weight * (t->spread * cells.second + t->skew * cells.first + cells.weight);
    double variance = square - mean * mean;
    variance = variance > CRAFT_TILT_NARROW ? variance : CRAFT_TILT_NARROW;
    return 0.5 * (own - n * log(variance) - (own - 2.0 * mean * sum + n * mean * mean) / variance);
}

/* log likelihood of cells under a tilt, over the distribution of the whole table */
static inline double craft_tilt_likelihood(double count_weight, craft_sums cells, craft_theta theta)
{
    return count_weight * (theta.first * cells.first + theta.second * cells.second + theta.atom * cells.atom
                           - cells.weight * theta.log_total);
}

/* Exact, because s1 and s2 are rounded: in any order, here by four levels at a time. */
static inline craft_sums craft_tilt_sums(const craft_tilt *t, const int64_t *counts, ptrdiff_t n_levels)
{
    craft_sums cells;
    double first[4] = {0.0, 0.0, 0.0, 0.0}, second[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t seen = 0;
    ptrdiff_t l = 0;
    for (; l + 4 <= n_levels; l += 4)
        for (int i = 0; i < 4; i++) {
            first[i] += (double)counts[l + i] * t->s1[l + i];
            second[i] += (double)counts[l + i] * t->s2[l + i];
            seen += counts[l + i];
        }
    for (; l < n_levels; l++) {
        first[0] += (double)counts[l] * t->s1[l];
        second[0] += (double)counts[l] * t->s2[l];
        seen += counts[l];
    }
    cells.first = (first[0] + first[1]) + (first[2] + first[3]);
    cells.second = (second[0] + second[1]) + (second[2] + second[3]);
    cells.weight = (double)seen;
    cells.atom = t->atom >= 0 ? (double)counts[t->atom] : 0.0;
    return cells;
}

/* cells of a group without some of them; exact, because s1 and s2 are rounded */
static inline craft_sums craft_left_sums(craft_sums group, craft_sums cells)
{
    group.weight -= cells.weight;
    group.first -= cells.first;
    group.second -= cells.second;
    group.atom -= cells.atom;
    return group;
}

/* cells of two groups together; exact, too */
static inline craft_sums craft_joined_sums(craft_sums one, craft_sums two)
{
    one.weight += two.weight;
    one.first += two.first;
    one.second += two.second;
    one.atom += two.atom;
    return one;
}

#endif
