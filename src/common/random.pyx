"""Uniform numbers that belong to keys: hashes by SplitMix64 (Steele, Lea & Flood 2014), see
craftc/_common/random.py.
"""

from libc.stdint cimport uint64_t

from craftc._kernels._common cimport check

cdef uint64_t GOLDEN = 0x9E3779B97F4A7C15
cdef uint64_t FIRST = 0xBF58476D1CE4E5B9
cdef uint64_t SECOND = 0x94D049BB133111EB
cdef object WORD = (1 << 64) - 1


cdef inline uint64_t _mixed(uint64_t z) noexcept nogil:
    """Finaliser of SplitMix64."""
    z = (z ^ z >> 30) * FIRST
    z = (z ^ z >> 27) * SECOND
    return z ^ z >> 31


cdef inline uint64_t _with(uint64_t state, uint64_t key) noexcept nogil:
    """The hash of one key more."""
    return _mixed(state + (key + 1) * GOLDEN)


cdef inline double _number(uint64_t state) noexcept nogil:
    """The top 53 bits as a number in [0, 1)."""
    return (state >> 11) * 2.0**-53


cdef uint64_t _state(seed, tuple keys) except? 0:
    cdef uint64_t state = _mixed(<uint64_t> (int(seed) & WORD) + GOLDEN)
    for key in keys:
        state = _with(state, <uint64_t> (int(key) & WORD))
    return state


def uniform_number(
    seed: Any,                              # non-negative
    tuple keys not None: tuple[Any, ...],   # of non-negative integers
) -> float:
    """The number of these keys."""
    return _number(_state(seed, keys))


def uniform_numbers(
    seed: Any,
    tuple keys not None: tuple[Any, ...],   # that all numbers share
    const uint64_t[:, ::1] further not None,  # IN  (n, m) keys of each number
    double[::1] out not None,               # OUT (n,)
):
    """The numbers of many keys that begin with the same `keys`."""
    cdef uint64_t first = _state(seed, keys), state
    cdef Py_ssize_t i, j
    check(out.shape[0] == further.shape[0], "out")
    with nogil:
        for i in range(further.shape[0]):
            state = first
            for j in range(further.shape[1]):
                state = _with(state, further[i, j])
            out[i] = _number(state)
