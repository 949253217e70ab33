"""Compiled kernels: one step of arithmetic over arrays they are given. Needs NumPy only.

Threads that wait sleep instead of spinning: an OpenMP runtime reads its policy when it is loaded, so it is
set around the first import here, unless the user has set one. A spinning thread on a busy machine makes every
parallel step many times slower.
"""

import os as _os

_chosen = _os.environ.get("OMP_WAIT_POLICY")
if _chosen is None:
    _os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
try:
    from craftc._kernels import parallel
finally:
    if _chosen is None:
        del _os.environ["OMP_WAIT_POLICY"]

__all__ = ["parallel"]
