/* Which instruction set the hot leaves run on. Every leaf is compiled once per level from the same source; the level is chosen
 * at run time, on any compiler with `target` attributes and any C library, and can be lowered with CRAFTC_SIMD=baseline|v3|v4 to check
 * that all levels give the same bits. */
#ifndef CRAFTC_SIMD_H
#define CRAFTC_SIMD_H

#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define CRAFTC_CLONES 1
#define CRAFTC_TARGET_V3 __attribute__((target("avx2")))
#define CRAFTC_TARGET_V4 __attribute__((target("avx2,avx512f,avx512dq,avx512vl,avx512bw")))
#else
#define CRAFTC_CLONES 0
#endif

/* leaf `stem` of one level */
#define SIMD_NAME_(stem, suffix) stem##suffix
#define SIMD_NAME(stem, suffix) SIMD_NAME_(stem, suffix)

/* leaf `stem` of the level that runs */
#if CRAFTC_CLONES
#define SIMD_DISPATCH(stem, arguments)                                                  \
    (simd_level() == 4 ? SIMD_NAME(stem, _v4) arguments                                 \
     : simd_level() == 3 ? SIMD_NAME(stem, _v3) arguments : SIMD_NAME(stem, _baseline) arguments)
#else
#define SIMD_DISPATCH(stem, arguments) SIMD_NAME(stem, _baseline) arguments
#endif

/* 0 baseline, 3 x86-64-v3 (AVX2), 4 x86-64-v4 (AVX-512) */
static inline int simd_level(void)
{
    static int level = -1;
    if (level < 0) {
        int found = 0;
#if CRAFTC_CLONES
        const char *asked = getenv("CRAFTC_SIMD");
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            found = 3;
        if (found && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            found = 4;
        if (asked && !strcmp(asked, "baseline"))
            found = 0;
        else if (asked && !strcmp(asked, "v3") && found > 3)
            found = 3;
#endif
        level = found;
    }
    return level;
}

#endif
