/* exp over vectors, for the leaves that include this: LANE_EXP is the name that the function gets. */

/* exp(x) for x in [-700, 700]; the error is about one unit of the last place */
TARGET static inline LANE LANE_EXP(LANE x)
{
    const double magic = 0x1.8p52;
    LANE whole = x * 1.4426950408889634 + magic, n = whole - magic, y, out;
    const LANE r = (x - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45, square = r * r;
    BITS bits;
    y = ((r * (1.0 / 6) + 0.5) * square + (r + 1.0))
        + (((r * (1.0 / 5040) + 1.0 / 720) * square + (r * (1.0 / 120) + 1.0 / 24))
           + ((r * (1.0 / 39916800) + 1.0 / 3628800) * square + (r * (1.0 / 362880) + 1.0 / 40320)
              + (square * square) * (1.0 / 479001600)) * (square * square)) * (square * square);
    memcpy(&bits, &whole, sizeof bits);
    bits = (BITS)((bits + 1023) << 52);
    memcpy(&out, &bits, sizeof out);
    return y * out;
}
