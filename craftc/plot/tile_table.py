"""The table as an image: rows sorted by cluster, selected features in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Array, Bits, Floats, FrameInput, Ints
from craftc.describe.overview import HtmlOverview
from craftc.describe.words import plural
from craftc.plot.cluster_view import ClusterModel, DrawnClusters, PlottedColumn, new_figure, read_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (7.0, 5.0)  # inches
_FONT = 8.0  # points, of the legend
_MOST_ROWS = 2000  # more than the pixels of a figure; longer tables are subsampled
_MOST_TICKS = 40  # column names
_LINE = 45  # characters of column names that fit on one line
_LONG = 32  # characters of a name
_NAMED = 0.03  # share of the rows below which a cluster has no label, for lack of room
_CLIPPED = 0.02  # share of a column's values at either end of the colour scale
_FADED = 0.3  # darkness of a cell that is not selected, relative to a selected one
_PALEST = 222  # grey of a cell that is not selected, to distinguish it from a missing one
#: Colours of levels, the most frequent first; the last is that of all further levels. No colour of the scale
#: of numbers is red.
_OF_LEVELS = ("#7A0F22", "#B3122C", "#DC3B47", "#E8707A", "#E892A0", "#D9A7B5")


def tiles(model: ClusterModel, X: FrameInput, *, order: str = "given", ax: Axes | None = None) -> Axes:
    """Draw the table as an image: rows sorted by cluster, with the features that a cluster selects in colour.

    Every value is a tile: a number from dark blue (low in its column) to yellow (high), a category from dark
    red (the most frequent level of its column) to pink (the sixth level and all further ones). Values of
    features that the cluster of the row does not select are faded to grey, so a cluster appears as a coloured
    block. With `CRAFT`, features in which a cluster differs from the whole table are in colour: of two
    clusters only one selects them. Missing values, and levels that `fit` has not seen, are white. Clusters of
    less than 3 % of the rows have no label. Of more than 2000 rows, 2000 are drawn, evenly spaced among the
    sorted rows.

    Parameters
    ----------
    model : FeatureSelectionMixture or CRAFT
        Fitted.
    X : data frame, dict of columns, array (n, D) or MixedTable
        The table, or other rows with the same columns; their clusters are predicted. The mixture takes data
        frames and arrays.
    order : {"given", "selection"}, default="given"
        "given": columns in input order. "selection": columns selected by the same clusters are adjacent.
    ax : matplotlib Axes, optional
        Where to draw; None: a new figure, with a legend of the colours.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        `order` is unknown, or the table does not have the columns of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import FeatureSelectionMixture, plot
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(0, 3, (120, 6))
    >>> X[:60, :3], X[60:, 2:5] = rng.normal(-5, 0.5, (60, 3)), rng.normal(5, 0.5, (60, 3))
    >>> ax = plot.tiles(FeatureSelectionMixture(6, random_state=0).fit(X), X)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['cluster 0: 60 rows', 'cluster 1: 60 rows']
    """
    if not isinstance(model, HtmlOverview):
        raise TypeError(
            "plot.tiles draws the feature_mask_ of FeatureSelectionMixture and CRAFT; "
            f"{type(model).__name__} has none."
        )
    drawn = DrawnClusters(model, "tiles", by_input=True)
    if order not in ("given", "selection"):
        raise ValueError(f'order must be "given" or "selection", got {order!r}.')
    mask = drawn.view.differs
    cells, labels = read_rows(model, X)
    # the first cluster's features first, among them the second's, ...
    columns = np.lexsort(~mask[::-1]) if order == "selection" else np.arange(len(cells))
    rows = np.argsort(labels, kind="stable")
    n = len(rows)
    if n > _MOST_ROWS:
        rows = rows[np.linspace(0, n - 1, _MOST_ROWS).round().astype(np.intp)]
    own_figure = ax is None
    ax = new_figure(_SIZE).add_subplot() if ax is None else ax
    picture = _tiles([cells[d] for d in columns], rows, mask[labels[rows]][:, columns])
    extent = (-0.5, len(columns) - 0.5, n - 0.5, -0.5)
    ax.imshow(picture, aspect="auto", interpolation="nearest", extent=extent)
    sizes = np.bincount(labels, minlength=len(mask))
    ends = np.cumsum(sizes) - 0.5
    for end in ends[:-1]:
        ax.axhline(end, color="black", linewidth=0.8)
    large = sizes >= _NAMED * n
    cluster_names = [f"cluster {k}: {plural(size, 'row')}" for k, size in enumerate(sizes.tolist())]
    ax.set_yticks((ends - sizes / 2)[large], np.array(cluster_names)[large])
    ticks = np.arange(0, len(columns), max(1, -(-len(columns) // _MOST_TICKS)))
    named = hasattr(model, "feature_names_in_")
    shortened = drawn.columns(_LONG) if named else list(map(str, range(len(columns))))
    names = [shortened[d] for d in columns[ticks]]
    ax.set_xticks(ticks, names, rotation=90 if sum(map(len, names)) > _LINE else 0)
    if own_figure:  # on other axes there may be a title
        kinds = {column.n_levels > 0 for column in cells}
        missing = bool((picture == 255).all(axis=-1).any())
        _legend(ax, False in kinds, True in kinds, not mask.all(), missing)
    return ax


def _tiles(cells: Sequence[PlottedColumn], rows: Ints, selected: Bits) -> NDArray[np.uint8]:
    """Colours (n, D, 3) of some rows: grey where not selected, white where missing."""
    import matplotlib
    from matplotlib.colors import to_rgb

    of_numbers = matplotlib.colormaps["viridis"](np.arange(256), bytes=True)[:, :3]
    of_levels = np.rint(255 * np.array([to_rgb(colour) for colour in _OF_LEVELS]))
    picture = np.empty((len(rows), len(cells), 3), np.uint8)
    for d, (values, n_levels) in enumerate(cells):
        shades = of_levels if n_levels else of_numbers
        place = _level_places(values, n_levels, rows) if n_levels else _number_places(values[rows])
        greys = np.minimum(255 - _FADED * (255 - shades.mean(axis=1, keepdims=True)), _PALEST)
        white = np.full((1, 3), 255)
        # the last colour is indexed by -1, a missing cell
        palette = np.concatenate([shades, np.broadcast_to(greys, shades.shape), white]).astype(np.uint8)
        picture[:, d] = palette[np.where(place < 0, -1, place + len(shades) * ~selected[:, d])]
    return picture


def _number_places(values: Array) -> Ints:
    """(n,) places on the scale of numbers, from 0 to 255; -1: missing."""
    missing = np.isnan(values)
    if missing.all():
        return np.full(len(values), -1)
    low, high = np.quantile(values[~missing], [_CLIPPED, 1.0 - _CLIPPED])
    if high <= low:  # nearly all values are equal: use the whole range
        low, high = values[~missing].min(), values[~missing].max()
    place: Floats = np.nan_to_num((values - low) / (high - low if high > low else 1.0)).clip(0.0, 1.0)
    return np.where(missing, -1, (place * 255).astype(np.intp))


def _level_places(codes: Array, n_levels: int, rows: Ints) -> Ints:
    """(n,) ranks of the levels of some rows by their frequency in all rows; -1: missing."""
    count = np.bincount(codes, minlength=n_levels + 1)[:n_levels]
    rank = np.empty(n_levels + 1, np.intp)
    rank[np.argsort(-count, kind="stable")] = np.arange(n_levels).clip(max=len(_OF_LEVELS) - 1)
    rank[n_levels] = -1
    return rank[codes[rows]]


def _legend(ax: Axes, numbers: bool, levels: bool, faded: bool, missing: bool) -> None:
    """Explain the colours, above the table."""
    import matplotlib
    from matplotlib.patches import Patch

    scale = matplotlib.colormaps["viridis"]
    shown: list[tuple[str, str | tuple[float, float, float, float], bool]] = [
        ("low", scale(0.0), numbers),
        ("high", scale(1.0), numbers),
    ]
    shown += [("frequent level", _OF_LEVELS[0], levels), ("rare level", _OF_LEVELS[-1], levels)]
    shown += [("as in the whole table", "0.8", faded), ("missing", "white", missing)]
    handles = [Patch(facecolor=colour, edgecolor="0.7", label=label) for label, colour, used in shown if used]
    ax.legend(
        handles=handles,
        ncols=len(handles),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        fontsize=_FONT,
        borderaxespad=0.2,
        columnspacing=1.0,
        handlelength=1.0,
        handletextpad=0.4,
    )
