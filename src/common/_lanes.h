/* One vocabulary for vectors. After `#define LEAVES "_some_leaves.h"`, `#include "common/_lanes.h"` compiles
 * that header once per instruction set, from the same source and so with the same bits. SIMD_DISPATCH of
 * _simd.h calls the clone that fits the processor. In LEAVES:
 *
 *   LEVEL                   0 baseline, 3 x86-64-v3 (AVX2 and FMA), 4 x86-64-v4 (AVX-512)
 *   TARGET, THIS(stem)      the instruction set, an attribute of every function; the clone's own name of
 *                           `stem`
 *   W, LANE, BITS           doubles of a vector; W doubles; W 64-bit integers
 *   WF, FLOATS, INTS        floats of a vector; WF floats; WF 32-bit integers
 *   ALL(type, x)            x in every place of a vector
 *   PICK(mask, a)           a where the comparison `mask` of two LANEs holds, else 0
 *   LARGER(a, b)            a > b ? a : b in every place, SMALLER(a, b) a < b ? a : b; LARGER_F and SMALLER_F
 *                           of FLOATS
 *   PICK_LESS(a, b, i, j)   the INTS i where a < b of two FLOATS, else j
 *   LARGER_I(a, b)          as LARGER, of INTS
 *   BITS_OF(a)              the bits of a LANE, as BITS
 *   CELLS_float(x)          the W floats from x on as a LANE, CELLS_double(x) W doubles; STORE_FLOATS(to, x)
 *                           the reverse
 *   MINUS_PRODUCT(s, a, b)  s - a b of FLOATS, fused where there is FMA: the one operation whose bits depend
 *                           on the level */
#ifndef CRAFTC_LANES_H
#define CRAFTC_LANES_H

#include <stdint.h>
#include "common/_simd.h"

#if CRAFTC_CLONES
#include <immintrin.h>
#endif

#if defined(__GNUC__)
#define LANES_VECTORS(suffix, bytes)                                                       \
    typedef double lane##suffix __attribute__((vector_size(bytes), aligned(8), may_alias));    \
    typedef int64_t bits##suffix __attribute__((vector_size(bytes), aligned(8), may_alias));   \
    typedef float floats##suffix __attribute__((vector_size(bytes), aligned(4), may_alias));   \
    typedef int32_t ints##suffix __attribute__((vector_size(bytes), aligned(4), may_alias));
LANES_VECTORS(_baseline, 16)
LANES_VECTORS(_v3, 32)
LANES_VECTORS(_v4, 64)
#undef LANES_VECTORS
#else
typedef double lane_baseline;
typedef int64_t bits_baseline;
typedef float floats_baseline;
typedef int32_t ints_baseline;
static inline int64_t lanes_bits(double x)
{
    union { double real; int64_t bits; } word;
    word.real = x;
    return word.bits;
}
#endif

#define ALL(type, x) ((x) - (type){0})      /* exact: x - 0 is x, whatever its sign */

#endif

#ifndef LEVEL

#define LEVEL 0
#include "common/_lanes.h"
#if CRAFTC_CLONES
#define LEVEL 3
#include "common/_lanes.h"
#define LEVEL 4
#include "common/_lanes.h"
#endif
#undef LEAVES

#else

#define LANE THIS(lane)
#define BITS THIS(bits)
#define FLOATS THIS(floats)
#define INTS THIS(ints)

#if LEVEL == 4
#define THIS(stem) SIMD_NAME(stem, _v4)
#define TARGET __attribute__((target(SIMD_V4)))
#define W 8
#define WF 16
#define LARGER(a, b) ((LANE)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define SMALLER(a, b) ((LANE)_mm512_min_pd((__m512d)(a), (__m512d)(b)))
#define LARGER_F(a, b) ((FLOATS)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLER_F(a, b) ((FLOATS)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define PICK_LESS(a, b, i, j)                                                                               \
    ((INTS)_mm512_mask_mov_epi32((__m512i)(j), _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_LT_OQ),    \
                                 (__m512i)(i)))
#define LARGER_I(a, b) ((INTS)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define MINUS_PRODUCT(s, a, b) ((FLOATS)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(s)))
/* gcc 12 converts halves of a vector apart */
#define CELLS_float(x) ((LANE)_mm512_cvtps_pd(_mm256_loadu_ps(x)))
#define STORE_FLOATS(to, x) _mm256_storeu_ps(to, _mm512_cvtpd_ps((__m512d)(x)))
#elif LEVEL == 3
#define THIS(stem) SIMD_NAME(stem, _v3)
#define TARGET __attribute__((target("avx2,fma")))
#define W 4
#define WF 8
#define LARGER(a, b) ((LANE)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define SMALLER(a, b) ((LANE)_mm256_min_pd((__m256d)(a), (__m256d)(b)))
#define LARGER_F(a, b) ((FLOATS)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER_F(a, b) ((FLOATS)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define PICK_LESS(a, b, i, j) \
    ((INTS)_mm256_blendv_ps((__m256)(j), (__m256)(i), _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_LT_OQ)))
#define LARGER_I(a, b) ((INTS)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define MINUS_PRODUCT(s, a, b) ((FLOATS)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(s)))
#define CELLS_float(x) ((LANE)_mm256_cvtps_pd(_mm_loadu_ps(x)))
#define STORE_FLOATS(to, x) _mm_storeu_ps(to, _mm256_cvtpd_ps((__m256d)(x)))
#else
#define THIS(stem) SIMD_NAME(stem, _baseline)
#define TARGET
#define MINUS_PRODUCT(s, a, b) ((s) - (a) * (b))
#if defined(__GNUC__)
#define W 2
#define WF 4
#define PICK_LESS(a, b, i, j) ((((a) < (b)) & (i)) | (~((a) < (b)) & (j)))
#define LARGER_I(a, b) PICK_LESS(b, a, a, b)
#define CELLS_float(x) ((LANE){(x)[0], (x)[1]})
#define STORE_FLOATS(to, x) ((to)[0] = (float)(x)[0], (to)[1] = (float)(x)[1])
#else
#define W 1
#define WF 1
#define PICK_LESS(a, b, i, j) ((a) < (b) ? (i) : (j))
#define LARGER_I(a, b) ((a) > (b) ? (a) : (b))
#define CELLS_float(x) ((LANE)*(x))
#define STORE_FLOATS(to, x) (*(to) = (float)(x))
#endif
#if CRAFTC_CLONES
#define LARGER(a, b) ((LANE)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#define SMALLER(a, b) ((LANE)_mm_min_pd((__m128d)(a), (__m128d)(b)))
#define LARGER_F(a, b) ((FLOATS)_mm_max_ps((__m128)(a), (__m128)(b)))
#define SMALLER_F(a, b) ((FLOATS)_mm_min_ps((__m128)(a), (__m128)(b)))
#elif defined(__GNUC__)
#define LARGER(a, b) ((LANE)((((a) > (b)) & (BITS)(a)) | (~((a) > (b)) & (BITS)(b))))
#define SMALLER(a, b) ((LANE)((((a) < (b)) & (BITS)(a)) | (~((a) < (b)) & (BITS)(b))))
#define LARGER_F(a, b) ((FLOATS)((((a) > (b)) & (INTS)(a)) | (~((a) > (b)) & (INTS)(b))))
#define SMALLER_F(a, b) ((FLOATS)((((a) < (b)) & (INTS)(a)) | (~((a) < (b)) & (INTS)(b))))
#else
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER_F LARGER
#define SMALLER_F SMALLER
#endif
#endif
#define CELLS_double(x) (*(const LANE *)(x))
#if defined(__GNUC__)
#define BITS_OF(a) ((BITS)(a))
#define PICK(mask, a) ((LANE)((BITS)(mask) & (BITS)(a)))
#else
#define BITS_OF lanes_bits
#define PICK(mask, a) ((mask) ? (a) : 0.0)
#endif

#include LEAVES

#undef LEVEL
#undef TARGET
#undef THIS
#undef W
#undef WF
#undef LANE
#undef BITS
#undef FLOATS
#undef INTS
#undef BITS_OF
#undef PICK
#undef PICK_LESS
#undef LARGER_I
#undef LARGER
#undef SMALLER
#undef LARGER_F
#undef SMALLER_F
#undef MINUS_PRODUCT
#undef CELLS_float
#undef CELLS_double
#undef STORE_FLOATS

#endif
