"""Optional dependencies, imported when they are needed."""

from __future__ import annotations

from typing import Any


def need_pandas() -> Any:
    """The pandas module, or a sentence that says how to get it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("This needs pandas: pip install 'craftc[app]'.") from error
    return pd
