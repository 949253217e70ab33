/* One clone of the leaf of _craft_pools.h, included once per instruction set by _lanes.h. */

/* the bits of the places in which a is at most b */
#if LEVEL == 4
#define AT_MOST(a, b) ((uint64_t)_mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_LE_OQ))
#elif LEVEL == 3
#define AT_MOST(a, b)                                                                                    \
    ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd((__m256d)(a), (__m256d)(b), _CMP_LE_OQ)))
#elif CRAFTC_CLONES
#define AT_MOST(a, b) ((uint64_t)(unsigned)_mm_movemask_pd(_mm_cmple_pd((__m128d)(a), (__m128d)(b))))
#elif defined(__GNUC__)
#define AT_MOST(a, b) ((uint64_t)((a)[0] <= (b)[0]) | (uint64_t)((a)[1] <= (b)[1]) << 1)
#else
#define AT_MOST(a, b) ((uint64_t)((a) <= (b)))
#endif

TARGET static void THIS(cheaper_shared)(ptrdiff_t lanes, const double *S, const double *spread,
                                        const double *shift, const double *around, const double *gain,
                                        const double *most, double mean, double precision,
                                        double log_precision, uint64_t *cheaper)
{
    for (ptrdiff_t first = 0; first < lanes; first += 64) {
        uint64_t bits = 0;
        for (ptrdiff_t k = first; k < lanes && k < first + 64; k += W) {
            const LANE weight = CELLS_double(S + k), away = CELLS_double(shift + k) - ALL(LANE, mean);
            const LANE squares = CELLS_double(spread + k) + weight * away * away;
            const LANE own = CELLS_double(around + k) - ALL(LANE, precision) * squares
                + weight * ALL(LANE, log_precision);
            const LANE net = CELLS_double(gain + k) - ALL(LANE, 0.5) * own, limit = CELLS_double(most + k);
            bits |= AT_MOST(net, limit) << (k - first);
        }
        cheaper[first / 64] = bits;
    }
}

#undef AT_MOST
