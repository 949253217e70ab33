"""The table as an image: rows sorted by cluster, selected features in colour."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats
from craftc.craft.estimator import CRAFT
from craftc.craft.summary import differing_features
from craftc.plot.figures import new_figure

_SIZE = (7.0, 5.0)  # inches
_MOST_TICKS = 40  # column names
_LINE = 45  # characters of column names that fit on one line
_NAMED = 0.03  # share of the rows below which a cluster has no label, for lack of room
_CLIPPED = 0.02  # share of a column's values at either end of the colour scale
_FADED = 0.3  # darkness of a cell that is not selected, relative to a selected one


def tiles(model: Any, X: ArrayLike, *, order: str = "given", axes: Any = None) -> Any:
    """Draw the table as an image: rows sorted by cluster, with the features that a cluster selects in colour.

    Every value is a tile, from dark blue (low in its column) to yellow (high). Values of features that the cluster of the row does not
    select are faded to grey, so a cluster appears as a coloured block. With `CRAFT`, features in which a cluster differs from the whole
    table are in colour: of two clusters only one selects them. Missing values are white. Clusters of less than 3 % of the rows have no
    label, and rows thinner than a pixel are subsampled.

    Parameters
    ----------
    model : FeatureSelectionMixture or CRAFT
        Fitted to numeric columns only.
    X : array or data frame (n, D)
        The table, or other rows with the same columns; their clusters are predicted.
    order : {"given", "selection"}, default="given"
        "given": columns in input order. "selection": columns selected by the same clusters are adjacent.
    axes : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        The model has no `feature_mask_`.
    ValueError
        The table contains values that are not numbers.
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import FeatureSelectionMixture, plot
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(0, 3, (120, 6))
    >>> X[:60, :3], X[60:, 2:5] = rng.normal(-5, 0.5, (60, 3)), rng.normal(5, 0.5, (60, 3))
    >>> axes = plot.tiles(FeatureSelectionMixture(6, random_state=0).fit(X), X)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['cluster 0: 60 rows', 'cluster 1: 60 rows']
    """
    check_is_fitted(model)
    if not hasattr(model, "feature_mask_"):
        raise TypeError(f"plot.tiles draws the feature_mask_ of FeatureSelectionMixture and CRAFT; {type(model).__name__} has none.")
    if order not in ("given", "selection"):
        raise ValueError(f'order must be "given" or "selection", got {order!r}.')
    labels = np.asarray(model.predict(X))
    mask = differing_features(model) if isinstance(model, CRAFT) else np.asarray(model.feature_mask_)
    try:
        cells = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"plot.tiles needs numeric columns ({error}); drop the others and fit again.") from error
    rows = np.argsort(labels, kind="stable")
    # the first cluster's features first, among them the second's, ...
    columns = np.lexsort(~mask[::-1]) if order == "selection" else np.arange(cells.shape[1])
    if axes is None:
        axes = new_figure(_SIZE).add_subplot()
    axes.imshow(_tiles(cells, mask[labels])[rows][:, columns], aspect="auto", interpolation="nearest")
    sizes = np.bincount(labels, minlength=len(mask))
    ends = np.cumsum(sizes) - 0.5
    for end in ends[:-1]:
        axes.axhline(end, color="black", linewidth=0.8)
    named = sizes >= _NAMED * len(labels)
    cluster_names = [f"cluster {k}: {n} row{'' if n == 1 else 's'}" for k, n in enumerate(sizes)]
    axes.set_yticks((ends - sizes / 2)[named], np.array(cluster_names)[named])
    names = np.asarray(getattr(model, "feature_names_in_", np.arange(len(columns))))[columns]
    ticks = np.arange(0, len(columns), max(1, -(-len(columns) // _MOST_TICKS)))
    axes.set_xticks(ticks, names[ticks], rotation=90 if sum(len(str(name)) for name in names[ticks]) > _LINE else 0)
    return axes


def _tiles(cells: Floats, selected: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Colours (n, D, 3): from dark to bright in every column, grey where not selected, white where missing."""
    import matplotlib

    missing = np.isnan(cells)
    full = np.where(missing.all(axis=0), 0.0, cells)  # a column without any value has no quantiles
    low, high = np.nanquantile(full, [_CLIPPED, 1.0 - _CLIPPED], axis=0)
    flat = high <= low  # nearly all values are equal: use the whole range
    low, high = np.where(flat, np.nanmin(full, axis=0), low), np.where(flat, np.nanmax(full, axis=0), high)
    place = np.nan_to_num((cells - low) / np.where(high > low, high - low, 1.0))
    shades = matplotlib.colormaps["viridis"](np.arange(256), bytes=True)[:, :3]
    greys = 255 - _FADED * (255 - shades.mean(axis=1, keepdims=True))
    palette = np.concatenate([shades, np.broadcast_to(greys, shades.shape)]).astype(np.uint8)
    picture: NDArray[np.uint8] = palette[(place.clip(0.0, 1.0) * 255).astype(np.intp) + 256 * ~selected]
    picture[missing] = 255
    return picture
