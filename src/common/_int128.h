/* 128-bit signed integers, stored as two 64-bit words (low, high), so that a sum has the same bytes with and
 * without a native type. Arithmetic is modulo 2^128: intermediate overflow is harmless. */
#ifndef CRAFTC_INT128_H
#define CRAFTC_INT128_H

#include <stdint.h>

typedef struct { uint64_t low, high; } craftc_int128;

/* ---- two limbs: always compiled, so that the tests cover them with every compiler ---- */

static inline craftc_int128 limbs_add(craftc_int128 a, craftc_int128 b)
{
    craftc_int128 s;
    s.low = a.low + b.low;
    s.high = a.high + b.high + (s.low < a.low);
    return s;
}

static inline craftc_int128 limbs_negate(craftc_int128 a)
{
    craftc_int128 s;
    s.low = ~a.low + 1u;
    s.high = ~a.high + (s.low == 0);
    return s;
}

static inline craftc_int128 limbs_multiply_unsigned(uint64_t a, uint64_t b)
{
    const uint64_t half = 0xffffffffu;
    uint64_t a0 = a & half, a1 = a >> 32, b0 = b & half, b1 = b >> 32;
    uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
    uint64_t middle = (p00 >> 32) + (p01 & half) + (p10 & half);
    craftc_int128 s;
    s.low = (p00 & half) | (middle << 32);
    s.high = p11 + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
    return s;
}

/* a * b modulo 2^128, b signed 64 bits */
static inline craftc_int128 limbs_scale(craftc_int128 a, int64_t b)
{
    uint64_t size = b < 0 ? 0u - (uint64_t)b : (uint64_t)b;
    craftc_int128 s = limbs_multiply_unsigned(a.low, size);
    s.high += a.high * size;
    return b < 0 ? limbs_negate(s) : s;
}

static inline craftc_int128 limbs_of(int64_t a)
{
    craftc_int128 s = {(uint64_t)a, a < 0 ? ~(uint64_t)0 : 0};
    return s;
}

static inline craftc_int128 limbs_product(int64_t a, int64_t b)
{
    return limbs_scale(limbs_of(a), b);
}

/* ---- arithmetic of the kernels: the native type if there is one ---- */

#if defined(__SIZEOF_INT128__) && !defined(CRAFTC_NO_INT128)
#define CRAFTC_NATIVE_INT128 1

static inline unsigned __int128 int128_join(craftc_int128 a)
{
    return ((unsigned __int128)a.high << 64) | a.low;
}

static inline craftc_int128 int128_part(unsigned __int128 a)
{
    craftc_int128 s = {(uint64_t)a, (uint64_t)(a >> 64)};
    return s;
}

static inline craftc_int128 int128_add(craftc_int128 a, craftc_int128 b)
{
    return int128_part(int128_join(a) + int128_join(b));
}

static inline craftc_int128 int128_scale(craftc_int128 a, int64_t b)
{
    return int128_part(int128_join(a) * (unsigned __int128)(__int128)b);
}

static inline craftc_int128 int128_product(int64_t a, int64_t b)
{
    return int128_part((unsigned __int128)((__int128)a * b));
}

#else
#define CRAFTC_NATIVE_INT128 0
#define int128_add limbs_add
#define int128_scale limbs_scale
#define int128_product limbs_product
#endif

#define int128_of limbs_of

/* the nearest double up to one additional rounding; the same formula with every compiler */
static inline double int128_double(craftc_int128 a)
{
    int negative = (int64_t)a.high < 0;
    craftc_int128 size = negative ? limbs_negate(a) : a;
    double value = (double)size.high * 18446744073709551616.0 + (double)size.low;
    return negative ? -value : value;
}

static inline craftc_int128 int128_load(const int64_t *cell)
{
    craftc_int128 s = {(uint64_t)cell[0], (uint64_t)cell[1]};
    return s;
}

static inline void int128_store(int64_t *cell, craftc_int128 a)
{
    cell[0] = (int64_t)a.low;
    cell[1] = (int64_t)a.high;
}

#endif
