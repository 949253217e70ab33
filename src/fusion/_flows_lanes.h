/* One clone of the leaf of _flows.h, included once per instruction set by _lanes.h. Sums over the numbers of
 * a node go in eight parts, whatever the instruction set. */

#define VECTORS (FLOWS_PARTS / W)
#define AT(pointer) (*(LANE *)(pointer))
#define FROM(pointer) (*(const LANE *)(pointer))

TARGET static double THIS(flows_wide)(const Flows *c, ptrdiff_t start, ptrdiff_t stop)
{
    const ptrdiff_t q = c->q, whole = q - q % FLOWS_PARTS;
    const LANE momentum = ALL(LANE, c->momentum);
    double *const row = c->row, *const x = row + q;
    LANE uphill[VECTORS];
    double rest = 0.0;
    for (int v = 0; v < VECTORS; v++)
        uphill[v] = ALL(LANE, 0.0);
    for (ptrdiff_t e = start; e < stop; e++) {
        const double *from = c->potential + c->edge[2 * e] * q, *to = c->potential + c->edge[2 * e + 1] * q;
        const double *lam = c->lam + e * q;
        const LANE step = ALL(LANE, c->step[e]);
        double *previous = c->previous + e * q, *from_sum = c->sums + c->edge[2 * e] * q,
            *to_sum = c->sums + c->edge[2 * e + 1] * q;
        double part[FLOWS_PARTS], norm = 0.0;
        LANE square[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            square[v] = ALL(LANE, 0.0);
        for (ptrdiff_t a = 0; a < whole; a += FLOWS_PARTS)
            for (int v = 0; v < VECTORS; v++) {
                const ptrdiff_t k = a + v * W;
                const LANE y = FROM(lam + k) + momentum * (FROM(lam + k) - FROM(previous + k));
                const LANE moved = y - step * (FROM(from + k) - FROM(to + k));
                AT(row + k) = y;
                AT(x + k) = moved;
                square[v] += moved * moved;
            }
        for (ptrdiff_t a = whole; a < q; a++) {
            row[a] = lam[a] + c->momentum * (lam[a] - previous[a]);
            x[a] = row[a] - c->step[e] * (from[a] - to[a]);
            norm += x[a] * x[a];
        }
        for (int v = 0; v < VECTORS; v++)
            AT(part + v * W) = square[v];
        norm += simd_total(part);
        const double radius = c->radius[e], scale = norm > radius * radius ? radius / sqrt(norm) : 1.0;
        c->saturated[e] = norm > radius * radius;
        for (ptrdiff_t a = 0; a < whole; a += FLOWS_PARTS)
            for (int v = 0; v < VECTORS; v++) {
                const ptrdiff_t k = a + v * W;
                const LANE p = ALL(LANE, scale) * FROM(x + k);
                uphill[v] += (FROM(row + k) - p) * (p - FROM(lam + k));
                AT(previous + k) = p;
                AT(from_sum + k) += p;
                AT(to_sum + k) -= p;
            }
        for (ptrdiff_t a = whole; a < q; a++) {
            const double p = scale * x[a];
            rest += (row[a] - p) * (p - lam[a]);
            previous[a] = p;
            from_sum[a] += p;
            to_sum[a] -= p;
        }
    }
    double part[FLOWS_PARTS];
    for (int v = 0; v < VECTORS; v++)
        AT(part + v * W) = uphill[v];
    return rest + ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

#undef VECTORS
#undef AT
#undef FROM
