/* Runtime dispatch of the SIMD functions. Each is compiled once per instruction set (level) from the same
 * source. The level is chosen at run time, with any compiler that has `target` attributes and any C library.
 * CRAFTC_SIMD=baseline|v3|v4 lowers it, to check that all levels give the same bits; v4 also leaves out what
 * some of its processors have beyond it. */
#ifndef CRAFTC_SIMD_H
#define CRAFTC_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define CRAFTC_CLONES 1
#else
#define CRAFTC_CLONES 0
#endif

/* doubles, rounded up to whole cache lines */
static inline ptrdiff_t simd_lines(ptrdiff_t doubles)
{
    return (doubles + 7) / 8 * 8;
}

/* 1.5 * 2^52 and its bits: adding it leaves a rounded number below 2^51 in the low bits of a double, without
 * a conversion and on any instruction set */
#define SIMD_MAGIC 6755399441055744.0
#define SIMD_MAGIC_BITS 0x4338000000000000

/* the sum of eight parts, in one order for all instruction sets */
static inline double simd_total(const double *part)
{
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

/* number of the lowest bit of a mask that is not 0 */
static inline int simd_lowest(uint64_t mask)
{
#if defined(__GNUC__)
    return __builtin_ctzll(mask);
#else
    int k = 0;
    while (!(mask >> k & 1))
        k++;
    return k;
#endif
}

/* prefetches a cache line; an address beyond the block is no error */
#if defined(__GNUC__)
#define SIMD_PREFETCH(address) __builtin_prefetch(address, 0, 2)
#else
#define SIMD_PREFETCH(address) ((void)(address))
#endif

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define ALWAYS_INLINE static __forceinline
#else
#define ALWAYS_INLINE static inline
#endif

/* what functions of level 4 may use */
#define SIMD_V4 "avx2,fma,avx512f,avx512dq,avx512vl,avx512bw"

/* name of function `stem` at one level */
#define SIMD_NAME_(stem, suffix) stem##suffix
#define SIMD_NAME(stem, suffix) SIMD_NAME_(stem, suffix)

/* call of function `stem` at the level in use */
#if CRAFTC_CLONES
#define SIMD_DISPATCH(stem, arguments)                                                  \
    (simd_level() == 4 ? SIMD_NAME(stem, _v4) arguments                                 \
     : simd_level() == 3 ? SIMD_NAME(stem, _v3) arguments : SIMD_NAME(stem, _baseline) arguments)
#else
#define SIMD_DISPATCH(stem, arguments) SIMD_NAME(stem, _baseline) arguments
#endif

/* 0 baseline, 3 x86-64-v3 (AVX2), 4 x86-64-v4 (AVX-512), 5 v4 with AVX-512 IFMA; concurrent first calls
 * compute the same value */
static inline int simd_found(void)
{
#if CRAFTC_CLONES
    static int level = -1;
    int found = __atomic_load_n(&level, __ATOMIC_RELAXED);
    if (found < 0) {
        const char *asked = getenv("CRAFTC_SIMD");
        int most = 5;
        if (asked)
            most = !strcmp(asked, "baseline") ? 0 : !strcmp(asked, "v3") ? 3 : !strcmp(asked, "v4") ? 4 : 5;
        found = 0;
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            found = 3;
        if (found && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            found = __builtin_cpu_supports("avx512ifma") ? 5 : 4;
        if (found > most)
            found = most;
        __atomic_store_n(&level, found, __ATOMIC_RELAXED);
    }
    return found;
#else
    return 0;
#endif
}

/* the level in use: 0, 3 or 4 */
static inline int simd_level(void)
{
    const int found = simd_found();
    return found > 4 ? 4 : found;
}

/* whether level 4 has sums of products of 52-bit integers */
static inline int simd_has_ifma(void)
{
    return simd_found() == 5;
}

/* The first instruction set that the code was compiled for (CFLAGS=-march=...) and that this processor lacks,
 * or NULL. */
static inline const char *simd_missing(void)
{
#if CRAFTC_CLONES
#define SIMD_NEED(feature)                 \
    if (!__builtin_cpu_supports(feature))  \
        return feature;
    __builtin_cpu_init();
#ifdef __SSE4_2__
    SIMD_NEED("sse4.2")
#endif
#ifdef __AVX__
    SIMD_NEED("avx")
#endif
#ifdef __FMA__
    SIMD_NEED("fma")
#endif
#ifdef __BMI2__
    SIMD_NEED("bmi2")
#endif
#ifdef __AVX2__
    SIMD_NEED("avx2")
#endif
#ifdef __AVX512F__
    SIMD_NEED("avx512f")
#endif
#ifdef __AVX512BW__
    SIMD_NEED("avx512bw")
#endif
#ifdef __AVX512VL__
    SIMD_NEED("avx512vl")
#endif
#if defined(__AVX512FP16__) && !defined(__clang__)
    SIMD_NEED("avx512fp16")
#endif
#undef SIMD_NEED
#endif
    return NULL;
}

#endif
