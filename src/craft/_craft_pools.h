/* Pools of clusters that share the distribution of one feature: one bit for every cluster. */
#ifndef CRAFTC_CRAFT_POOLS_H
#define CRAFTC_CRAFT_POOLS_H

#include <stddef.h>
#include <stdint.h>
#include "common/_simd.h"

static inline int craft_is_in(const uint64_t *pool, ptrdiff_t k)
{
    return pool[k >> 6] >> (k & 63) & 1;
}

/* cluster k joins the pool or leaves it */
static inline void craft_flip(uint64_t *pool, ptrdiff_t k)
{
    pool[k >> 6] ^= (uint64_t)1 << (k & 63);
}

static inline int craft_same_pool(const uint64_t *pool, const uint64_t *other, ptrdiff_t n_words)
{
    for (ptrdiff_t i = 0; i < n_words; i++)
        if (pool[i] != other[i])
            return 0;
    return 1;
}

/* the first cluster from k on that is in the pool; at least K if there is none */
static inline ptrdiff_t craft_next_in(const uint64_t *pool, ptrdiff_t n_words, ptrdiff_t k)
{
    ptrdiff_t word = k >> 6;
    uint64_t bits;
    if (word >= n_words)
        return k;
    bits = pool[word] >> (k & 63);
    if (bits)
        return k + simd_lowest(bits);
    while (++word < n_words)
        if (pool[word])
            return word * 64 + simd_lowest(pool[word]);
    return n_words * 64;
}

/* the sum, in order, of the numbers of the clusters k < K that are not in the pool */
static inline double craft_sum_outside(const uint64_t *pool, ptrdiff_t K, const double *of_cluster)
{
    double sum = 0.0;
    for (ptrdiff_t first = 0; first < K; first += 64) {
        uint64_t bits = ~pool[first >> 6];
        if (K - first < 64)
            bits &= ((uint64_t)1 << (K - first)) - 1;
        for (; bits; bits &= bits - 1)
            sum += of_cluster[first + simd_lowest(bits)];
    }
    return sum;
}

#endif
