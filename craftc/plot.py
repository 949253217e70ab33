"""Pictures of fitted models (matplotlib: ``pip install 'craftc[app]'``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

__all__ = ["features", "tiles"]

_COLUMNS = 5  # pictures side by side
_SIDE = 2.1  # inches of the longer side of a picture
_BRIGHTEST = 0.995  # share of the pixels that the scale holds; the few beyond, glints and dead pixels, are cut off
_NEGATIVE = 0.1  # of the scale: a feature that goes further below 0 is shown as a difference
_TABLE = (7.0, 5.0)  # inches of a table of tiles
_TICKS = 40  # column names at most
_LINE = 45  # characters of column names side by side
_TOLD = 0.03  # share of the rows of a cluster that is named beside the table: smaller ones have no room
_DARKEST = 0.02  # share of a column's cells that are as dark, and as bright, as any
_FADED = 0.3  # of the darkness of a cell that is not selected

Floats = NDArray[np.float64]


def features(
    model: Any,
    shape: Sequence[int],
    *,
    names: Sequence[str] | None = None,
    columns: int | None = None,
    difference: bool | None = None,
    figure: Any = None,
    to_pixels: Callable[[Floats], ArrayLike] | ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
) -> Any:
    """The features of a model of pictures, as pictures.

    A feature that is nowhere clearly negative is shown as it is: black is 0. Any other is a difference: zero is white in the middle
    of a red-blue scale (red adds, blue takes away), or grey in a coloured picture. Each picture has a scale of its own.

    Parameters
    ----------
    model : BPMeans or KFeatures
        Fitted.
    shape : (height, width) or (height, width, 3)
        Of a picture. A row holds it line by line, the three colours of a pixel side by side.
    names : sequence of str, optional
        A name for every feature, in place of its number.
    columns : int, optional
        Pictures side by side; None: 5.
    difference : bool, optional
        Show all features as differences (True), or all as pictures in which black is 0 and below (False); None: each as its numbers are.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; None: a new figure.
    to_pixels : callable, array (D, pixels) or pair (array, mean), optional
        From features to pixels, for a model of scores: a callable is given `features_`, an array is multiplied with them
        (``pca.components_``), and the mean (pixels,) is added to every picture, which then shows its feature alone in an average scene.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        The features do not have the shape of the pictures.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import KFeatures, plot
    >>> bars = np.zeros((2, 4, 4))
    >>> bars[0, 1], bars[1, :, 2] = 2, 3
    >>> Z = np.arange(60)[:, None] % [2, 3] == 0
    >>> model = KFeatures(2, base="none", random_state=0).fit(Z @ bars.reshape(2, 16))
    >>> figure = plot.features(model, (4, 4))
    >>> [axes.get_title() for axes in figure.axes]
    ['feature 0: 30 rows', 'feature 1: 20 rows']
    """
    check_is_fitted(model)
    if not hasattr(model, "features_"):
        raise TypeError(f"plot.features shows the features_ of BPMeans and KFeatures; {type(model).__name__} has none.")
    size = _shape(shape)
    K = len(model.features_)
    if names is not None and len(names) != K:
        raise ValueError(f"names must have one name per feature, {K}, got {len(names)}.")
    if columns is not None and columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}.")
    if K == 0:
        raise ValueError("The model has no features (none paid its penalty), so there is nothing to show.")
    pictures = _pixels(model.features_, to_pixels)
    if pictures.shape != (K, int(np.prod(size))):
        raise ValueError(
            f"shape {size} has {int(np.prod(size))} numbers and {'to_pixels gives' if to_pixels is not None else 'a feature has'} "
            f"{' x '.join(map(str, pictures.shape[1:]))} per feature: give (height, width) or (height, width, 3) of a picture, and for a "
            "model of scores to_pixels."
        )
    across = min(columns or _COLUMNS, K)
    down = -(-K // across)
    width, height = np.array([size[1], size[0]]) * _SIDE / max(size[:2])
    if figure is None:
        figure = _need_pyplot().figure(figsize=(across * max(width + 0.1, 1.5), down * (height + 0.35)), layout="constrained")
    counts = model.assignments_.sum(axis=0)
    for k, picture in enumerate(pictures):
        axes = figure.add_subplot(down, across, k + 1)
        values, style = _shades(picture.reshape(size), difference)
        axes.imshow(values, interpolation="nearest", **style)
        name = f"feature {k}" if names is None else names[k]
        axes.set_title(f"{name}: {counts[k]} row{'' if counts[k] == 1 else 's'}", fontsize=9)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_color("0.7")
    return figure


def tiles(model: Any, X: ArrayLike, *, order: str = "given", axes: Any = None) -> Any:
    """The table as a picture: rows sorted by cluster, and in colour the features that a cluster selects.

    Every cell is a tile, dark blue where it is low in its column and yellow where it is high; cells of columns that the cluster of the
    row does not select are faded to grey. So a cluster shows as a coloured block. Missing cells are white. Clusters of less
    than 3 % of the rows have no name beside them, and of rows thinner than a pixel some are drawn.

    Parameters
    ----------
    model : FeatureSelectionMixture or CRAFT
        Fitted, to numbers only.
    X : array or data frame (n, D)
        The table, or other rows of the same columns: clusters are predicted.
    order : {"given", "selection"}, default="given"
        Columns as they come, or those together that are selected by the same clusters.
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
        The table has cells that are not numbers.
    ImportError
        Without matplotlib.

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
        raise TypeError(f"plot.tiles shows the feature_mask_ of FeatureSelectionMixture and CRAFT; {type(model).__name__} has none.")
    if order not in ("given", "selection"):
        raise ValueError(f'order must be "given" or "selection", got {order!r}.')
    labels, mask = np.asarray(model.predict(X)), np.asarray(model.feature_mask_)
    try:
        cells = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("plot.tiles shows numbers; the table has cells that are none.") from error
    rows = np.argsort(labels, kind="stable")
    # the first cluster's features first, among them the second's, ...
    columns = np.lexsort(~mask[::-1]) if order == "selection" else np.arange(cells.shape[1])
    if axes is None:
        axes = _need_pyplot().figure(figsize=_TABLE, layout="constrained").add_subplot()
    axes.imshow(_tiles(cells, mask[labels])[rows][:, columns], aspect="auto", interpolation="nearest")
    sizes = np.bincount(labels, minlength=len(mask))
    ends = np.cumsum(sizes) - 0.5
    for end in ends[:-1]:
        axes.axhline(end, color="black", linewidth=0.8)
    shown = sizes >= _TOLD * len(labels)
    words = [f"cluster {k}: {n} row{'' if n == 1 else 's'}" for k, n in enumerate(sizes)]
    axes.set_yticks((ends - sizes / 2)[shown], np.array(words)[shown])
    names = np.asarray(getattr(model, "feature_names_in_", np.arange(len(columns))))[columns]
    ticks = np.arange(0, len(columns), max(1, -(-len(columns) // _TICKS)))
    axes.set_xticks(ticks, names[ticks], rotation=90 if sum(len(str(name)) for name in names[ticks]) > _LINE else 0)
    return axes


def _tiles(cells: Floats, selected: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n, D, 3) colours: from dark to bright in every column, grey where not selected, white where missing."""
    import matplotlib

    missing = np.isnan(cells)
    full = np.where(missing.all(axis=0), 0.0, cells)  # a column of holes has no quantiles
    low, high = np.nanquantile(full, [_DARKEST, 1.0 - _DARKEST], axis=0)
    flat = high <= low  # more than these shares of one value: its whole range
    low, high = np.where(flat, np.nanmin(full, axis=0), low), np.where(flat, np.nanmax(full, axis=0), high)
    place = np.nan_to_num((cells - low) / np.where(high > low, high - low, 1.0))
    shades = matplotlib.colormaps["viridis"](np.arange(256), bytes=True)[:, :3]
    greys = 255 - _FADED * (255 - shades.mean(axis=1, keepdims=True))
    palette = np.concatenate([shades, np.broadcast_to(greys, shades.shape)]).astype(np.uint8)
    picture: NDArray[np.uint8] = palette[(place.clip(0.0, 1.0) * 255).astype(np.intp) + 256 * ~selected]
    picture[missing] = 255
    return picture


def _need_pyplot() -> Any:
    """matplotlib.pyplot, or a sentence that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: pip install 'craftc[app]'.") from error
    return plt


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    size = tuple(int(side) for side in np.atleast_1d(np.asarray(shape)))
    if len(size) not in (2, 3) or min(size) < 1 or size[2:] not in ((), (3,)):
        raise ValueError(f"shape must be (height, width) or (height, width, 3) of a picture, got {shape!r}.")
    return size


def _pixels(table: Floats, to_pixels: Any) -> Floats:
    """(K, pixels)."""
    if to_pixels is None:
        pictures = table
    elif callable(to_pixels):
        pictures = to_pixels(table)
    else:
        matrix, mean = to_pixels if isinstance(to_pixels, tuple) else (to_pixels, 0.0)
        matrix = np.asarray(matrix, np.float64)
        if matrix.ndim != 2 or len(matrix) != table.shape[1]:
            raise ValueError(f"to_pixels must have a row for each of the {table.shape[1]} columns of the model, got shape {matrix.shape}.")
        pictures = table @ matrix + np.asarray(mean, np.float64)
    pictures = np.asarray(pictures, np.float64)
    return pictures.reshape(len(pictures), -1) if pictures.ndim > 2 else pictures


def _shades(picture: Floats, difference: bool | None) -> tuple[Floats, dict[str, Any]]:
    """Numbers and the settings that show them."""
    scale = float(np.quantile(np.abs(picture), _BRIGHTEST, method="higher")) or float(np.abs(picture).max()) or 1.0
    if difference is None:
        difference = bool(picture.min() < -_NEGATIVE * scale)
    if picture.ndim == 3:
        return np.clip(0.5 + 0.5 * picture / scale if difference else picture / scale, 0.0, 1.0), {}
    return picture, {"cmap": "RdBu_r" if difference else "gray", "vmin": -scale if difference else 0.0, "vmax": scale}
