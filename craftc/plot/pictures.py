"""Features of image models as images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats
from craftc.bpmeans.estimators import BPMeans, KFeatures
from craftc.plot.cluster_view import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

PixelMap: TypeAlias = "Callable[[Floats], ArrayLike] | ArrayLike | tuple[ArrayLike, ArrayLike]"

_COLUMNS = 5  # images per line
_SIDE = 2.1  # inches of the longer side of an image
_BRIGHTEST = 0.995  # quantile of the pixels at the end of the scale; pixels beyond it are clipped
_NEGATIVE = 0.1  # of the scale: a feature with values further below 0 is drawn as a difference


def features(
    model: BPMeans | KFeatures,
    shape: Sequence[int],
    *,
    names: Sequence[str] | None = None,
    columns: int | None = None,
    difference: bool | None = None,
    figure: Figure | SubFigure | None = None,
    to_pixels: PixelMap | None = None,
) -> Figure | SubFigure:
    """Draw the features of a model fitted to images, each as an image.

    A feature without clearly negative values is drawn with black at 0. Any other is a difference: 0 is white
    in the middle of a red-blue scale (red adds, blue subtracts), or grey in a colour image. Each image has
    its own scale.

    Parameters
    ----------
    model : BPMeans or KFeatures
        Fitted.
    shape : (height, width) or (height, width, 3)
        Shape of an image. A row of the table contains the image line by line, with the three colours of a
        pixel adjacent.
    names : sequence of str, optional
        A name for every feature, in place of its number.
    columns : int, optional
        Images per line; None: 5.
    difference : bool, optional
        True: draw all features as differences. False: draw none as a difference, with black at 0 and below.
        None: decide for each feature from its values.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; None: a new figure.
    to_pixels : callable, array (D, pixels) or pair (array, mean), optional
        Map from features to pixels, for a model fitted to scores: a callable receives `features_`; an array
        is multiplied from the right (``pca.components_``); the mean (pixels,) is added to every image, which
        then shows its feature in an average scene.

    Returns
    -------
    matplotlib Figure or SubFigure

    Raises
    ------
    ValueError
        The features do not have the shape of the images.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import KFeatures, plot
    >>> bars = np.zeros((2, 4, 4))
    >>> bars[0, 1], bars[1, :, 2] = 2, 3
    >>> Z = np.arange(60)[:, None] % [2, 3] == 0
    >>> model = KFeatures(2, base="none", random_state=0).fit(Z @ bars.reshape(2, 16))
    >>> figure = plot.features(model, (4, 4))
    >>> [ax.get_title() for ax in figure.axes]
    ['feature 0: 20 rows', 'feature 1: 30 rows']
    """
    check_is_fitted(model)
    if not hasattr(model, "features_"):
        raise TypeError(
            f"plot.features draws the features_ of BPMeans and KFeatures; {type(model).__name__} has none."
        )
    size, K = _shape(shape), len(model.features_)
    if names is not None and len(names) != K:
        raise ValueError(f"names must have one name per feature ({K}), got {len(names)}.")
    if columns is not None and columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}.")
    if K == 0:
        raise ValueError("The model has no features to draw; fit it with a lower feature_penalty.")
    pictures = _pixels(model.features_, to_pixels)
    if pictures.shape != (K, int(np.prod(size))):
        found = " x ".join(map(str, pictures.shape[1:]))
        raise ValueError(
            f"shape {size} has {int(np.prod(size))} pixels, but "
            f"{'a feature has' if to_pixels is None else 'to_pixels returns'} {found}; "
            "pass (height, width) or (height, width, 3) of an image, and to_pixels for a model fitted to "
            "scores."
        )
    across = min(columns or _COLUMNS, K)
    down = -(-K // across)
    width, height = np.array([size[1], size[0]]) * _SIDE / max(size[:2])
    if figure is None:
        figure = new_figure((across * max(width + 0.1, 1.5), down * (height + 0.35)))
    counts = model.assignments_.sum(axis=0)
    for k, picture in enumerate(pictures):
        ax = figure.add_subplot(down, across, k + 1)
        values, style = _shades(picture.reshape(size), difference)
        ax.imshow(values, interpolation="nearest", **style)
        name = f"feature {k}" if names is None else names[k]
        ax.set_title(f"{name}: {counts[k]} row{'' if counts[k] == 1 else 's'}", fontsize=9)
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_color("0.7")
    return figure


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an image, checked."""
    size = tuple(int(side) for side in np.atleast_1d(np.asarray(shape)))
    if len(size) not in (2, 3) or min(size) < 1 or size[2:] not in ((), (3,)):
        raise ValueError(f"shape must be (height, width) or (height, width, 3) of an image, got {shape!r}.")
    return size


def _pixels(table: Floats, to_pixels: PixelMap | None) -> Floats:
    """The K features as images of shape (K, pixels)."""
    if to_pixels is None:
        pictures: ArrayLike = table
    elif callable(to_pixels):
        pictures = to_pixels(table)
    else:
        matrix, mean = to_pixels if isinstance(to_pixels, tuple) else (to_pixels, 0.0)
        matrix = np.asarray(matrix, np.float64)
        if matrix.ndim != 2 or len(matrix) != table.shape[1]:
            raise ValueError(
                f"to_pixels must have one row for each of the model's {table.shape[1]} columns, got shape "
                f"{matrix.shape}."
            )
        pictures = table @ matrix + np.asarray(mean, np.float64)
    images = np.asarray(pictures, np.float64)
    return images.reshape(len(images), -1) if images.ndim > 2 else images


def _shades(picture: Floats, difference: bool | None) -> tuple[Floats, dict[str, Any]]:
    """Values of an image and the keyword arguments of `imshow` that scale them."""
    size = np.abs(picture)
    scale = float(np.quantile(size, _BRIGHTEST, method="higher")) or float(size.max()) or 1.0
    if difference is None:
        difference = bool(picture.min() < -_NEGATIVE * scale)
    if picture.ndim == 3:
        return np.clip(0.5 + 0.5 * picture / scale if difference else picture / scale, 0.0, 1.0), {}
    low, colours = (-scale, "RdBu_r") if difference else (0.0, "gray")
    return picture, {"cmap": colours, "vmin": low, "vmax": scale}
