"""Types shared by the kernels."""

cimport cython
from libc.stdint cimport uint8_t, uint16_t

ctypedef fused code_t:
    uint8_t
    uint16_t

cdef extern from "_openmp.h" nogil:
    int CRAFTC_OPENMP
    int omp_get_max_threads()
    int omp_get_thread_num()
    int omp_get_num_procs()
    Py_ssize_t block_rows()

cdef extern from "_simd.h" nogil:
    int simd_level()
    const char *simd_missing()

cdef extern from "_int128.h" nogil:
    int CRAFTC_NATIVE_INT128
