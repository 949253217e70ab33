"""New matplotlib figures; matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

from typing import Any


def new_figure(size: tuple[float, float]) -> Any:
    """Create a pyplot figure of this size in inches, or raise ImportError with the command that installs
    matplotlib.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'craftc[app]'.") from error
    return plt.figure(figsize=size, layout="constrained")
