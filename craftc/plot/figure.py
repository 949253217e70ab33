"""The figures of the plots, which are saved for papers and slides."""

from __future__ import annotations

from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure


class PaperFigure(Figure):
    """A figure that is saved at 300 dpi, with text as text in SVG and PDF."""

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does; `dpi` is 300 unless it is given."""
        with rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}):
            super().savefig(fname, **{"dpi": 300, **kwargs})
