"""Collapsed sweeps of BP-means."""

from libc.stdint cimport uint64_t

from craftc._kernels._bpmeans cimport BP_MOST, descent

ctypedef struct other_rows:     # the fit without one row
    Py_ssize_t K                # features that the other rows determine
    uint64_t keep               # which of all features they are
    uint64_t present            # the row's own among them, numbered within keep
    double cost                 # increase of J by the row with its present features
    double[BP_MOST] b           # (K) B x
    double[BP_MOST * BP_MOST] H  # (K, lanes) inverse of Z'Z
    double[BP_MOST * BP_MOST] G  # (K, lanes) B B'

cdef void sweep_collapsed(descent *c) noexcept nogil
