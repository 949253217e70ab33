"""Optional dependencies, imported on first use."""

from __future__ import annotations

from typing import Any


def need_pandas() -> Any:
    """The pandas module, or ImportError with the command that installs it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("This needs pandas: pip install 'craftc[app]'.") from error
    return pd
