"""Pictures of fitted models (matplotlib: ``pip install 'craftc[app]'``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

__all__ = ["features"]

_COLUMNS = 5  # pictures side by side
_SIDE = 2.1  # inches of the longer side of a picture
_BRIGHTEST = 0.995  # share of the pixels that the scale holds; the few beyond, glints and dead pixels, are cut off
_NEGATIVE = 0.1  # of the scale: a feature that goes further below 0 is shown as a difference

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
