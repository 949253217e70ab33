/* log over vectors, for the leaves that include this: LANE_LOG is the name that the function gets. */

/* log(x) for normal x > 0; the error is at most two units of the last place */
TARGET static inline LANE LANE_LOG(LANE x)
{
    /* x = m 2^k with m in [1/sqrt 2, sqrt 2), ln m = 2 artanh s for s = (m - 1) / (m + 1) */
    const int64_t half = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;
    BITS bits, k;
    LANE m, exponent;
    memcpy(&bits, &x, sizeof bits);
    bits += one - half;
    k = (bits >> 52) + (0x4330000000000000 + 1024); /* the number 2^52 + 2047 + k */
    bits = (bits & 0xfffffffffffff) + half;
    memcpy(&m, &bits, sizeof m);
    memcpy(&exponent, &k, sizeof exponent);
    exponent -= 0x1p52 + 2047;
    const LANE s = (m - 1.0) / (m + 1.0), z = s * s, square = z * z;
    const LANE near = (z * (1.0 / 5) + 1.0 / 3) + (z * (1.0 / 9) + 1.0 / 7) * square;
    const LANE far = (z * (1.0 / 13) + 1.0 / 11) + (z * (1.0 / 17) + 1.0 / 15) * square
        + (z * (1.0 / 21) + 1.0 / 19) * (square * square);
    const LANE rest = (s + s) * (z * (near + far * (square * square)));
    return exponent * 0x1.62e42fefa38p-1 + ((s + s) + (rest + exponent * 0x1.ef35793c7673p-45));
}
