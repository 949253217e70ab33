/* log over vectors, for the leaves that include this: LANE_LOG is the name that the function gets. */

/* log(x) for normal x > 0; the error is at most two units of the last place */
TARGET static inline LANE LANE_LOG(LANE x)
{
    /* x = m 2^k with m in [1/sqrt 2, sqrt 2), ln m = 2 artanh s for s = (m - 1) / (m + 1) */
    const int64_t half = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;
    BITS bits, k;
    LANE m, exponent, sum;
    memcpy(&bits, &x, sizeof bits);
    bits += one - half;
    k = (bits >> 52) + (0x4330000000000000 + 1024); /* the number 2^52 + 2047 + k */
    bits = (bits & 0xfffffffffffff) + half;
    memcpy(&m, &bits, sizeof m);
    memcpy(&exponent, &k, sizeof exponent);
    exponent -= 0x1p52 + 2047;
    const LANE s = (m - 1.0) / (m + 1.0), z = s * s;
    sum = ALL(LANE, 1.0 / 21);
    for (int i = 19; i >= 3; i -= 2)
        sum = sum * z + 1.0 / i;
    sum = (s + s) * (z * sum);
    return exponent * 0x1.62e42fefa38p-1 + ((s + s) + (sum + exponent * 0x1.ef35793c7673p-45));
}
