"""The stable C surface of craftc: all that a Cython package may cimport. A change that breaks a caller is a
major version.

What every function does stands in craftc/craftc.h; docs/embedding.md has a complete example.
"""

from craftc._kernels.embed cimport (
    CRAFTC_API_VERSION,
    CRAFTC_BAD_CODE,
    CRAFTC_BAD_EDGE,
    CRAFTC_BAD_SIZE,
    CRAFTC_BAD_TYPE,
    CRAFTC_FLOAT32,
    CRAFTC_FLOAT64,
    CRAFTC_NO_POINTER,
    CRAFTC_OFF_GRID,
    CRAFTC_OK,
    CRAFTC_UINT8,
    CRAFTC_UINT16,
    craftc_api_version,
    craftc_costs,
    craftc_costs_of,
    craftc_craft_assign,
    craftc_craft_scratch_size,
    craftc_craft_shape,
    craftc_edges,
    craftc_edges_check,
    craftc_edges_pass,
    craftc_grid,
    craftc_moments_add,
    craftc_moments_grid,
    craftc_moments_mean,
    craftc_moments_merge,
    craftc_moments_size,
    craftc_nearest,
    craftc_nearest_scratch_size,
    craftc_simd_level,
)
