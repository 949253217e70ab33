"""What an error says, and whether it is one of the input."""

from __future__ import annotations

import linecache
from importlib.util import find_spec

_NO_MEMORY = (
    "not enough memory for this table. Use fewer rows or columns; Parquet and Arrow files are read in "
    "batches (--out-of-core)."
)


def is_expected(error: Exception) -> bool:
    """Whether an error is one of the input or of the machine, and no defect of craftc."""
    if isinstance(error, OSError | ImportError | MemoryError):
        return True
    return isinstance(error, ValueError | TypeError) and _is_raised_here(error)


def message_of(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    if isinstance(error, MemoryError) and (type(error) is not MemoryError or not error.args):
        return _NO_MEMORY
    return str(error)


def _is_raised_here(error: Exception) -> bool:
    """Whether a `raise` of craftc, here or on a worker, raised an error, and not another package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    if trace is None or name.partition(".")[0] != "craftc":
        return False
    spec = find_spec(name)  # a worker may have the file in another place
    origin = None if spec is None else spec.origin
    return origin is not None and linecache.getline(origin, trace.tb_lineno).lstrip().startswith("raise ")
