"""Pictures of fitted models (matplotlib, networkx: ``pip install 'craftc[app]'``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.typing import Floats
from craftc._common.validation import check_number
from craftc.plot import graph, tree

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


def fusion_tree(
    model: Any,
    *,
    names: Sequence[str] | None = None,
    only: int | str | Sequence[int | str] | None = None,
    of_class: Any = None,
    leaves: int = 60,
    axes: Any = None,
) -> Any:
    """The tree of a path: which covariates are one cluster, from which fusion penalty on.

    Covariates are leaves. Branches meet at the penalty from which on they are one cluster; at the left edge, if they are one even at
    the smallest. Branches that never meet have no similarities that connect them. A branch has the colour of the class that its cluster
    speaks for by its largest coefficient (grey: all are zero), a name the colour of its chosen cluster.

    The line is the chosen penalty. At it stand the odds ratios of the chosen clusters for one unit of a covariate, so choose units that
    mean something, from `coef_`: exp(b_1 - b_0) of two classes; of more, the cluster's own class against the mean of the others. In a
    tree of up to twelve leaves the other clusters have theirs in italics, by the coefficients of the path, which the penalty shrinks.

    On a path covariates that have parted may meet again, which no tree can show. Here they stay parted. The chosen clusters are drawn as
    they are nevertheless: at larger penalties each is kept whole, and is where most of it is.

    Parameters
    ----------
    model : ConvexCovariateClustering
        Fitted to a path of penalties.
    names : sequence of str, optional
        A name for every covariate; None: column names, or numbers.
    only : int, str or sequence of them, optional
        Numbers or names of covariates: the smallest subtree that holds their chosen clusters.
    of_class : a class, optional
        Only covariates whose chosen cluster speaks for it.
    leaves : int, default=60
        Of more covariates the strongest are shown: largest in `coef_`, then at the smallest penalty. Those in `only` come first.
    axes : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        The model has no path.
    ValueError
        The path is one penalty, or no such covariate or class.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import ConvexCovariateClustering, plot
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["ham", "spam"], 50)
    >>> X = rng.normal(size=(100, 4)) + (y == "spam")[:, None] * [0, 0, 2, 2]
    >>> model = ConvexCovariateClustering([100, 10, 1, 0.1], similarity=np.ones((4, 4))).fit(X, y)
    >>> axes = plot.fusion_tree(model, names=["the", "and", "prize", "winner"], of_class="spam")
    >>> sorted(label.get_text() for label in axes.get_yticklabels())
    ['prize', 'winner']
    """
    check_is_fitted(model)
    if not hasattr(model, "covariate_labels_") or not hasattr(model, "_points"):
        raise TypeError(f"plot.fusion_tree shows the path of ConvexCovariateClustering; {type(model).__name__} has none.")
    if len(model._points) < 2:
        raise ValueError("plot.fusion_tree shows a path, and the model has one penalty: fit it with a decreasing array as fusion_penalty.")
    check_number("leaves", leaves, least=1, whole=True)
    d, classes = model.coef_.shape[1], [str(name) for name in model.classes_]
    words = tree.names_of(model, names, d)
    reading = tree.Reading(model)
    named = None if only is None else tree.named(only, words)
    shown, total = reading.leaves(named, tree.class_index(model.classes_, of_class), leaves)
    if total == 0:
        raise ValueError(f"No chosen cluster{' there' if only is not None else ''} speaks for the class {of_class!r}, so nothing is shown.")
    if axes is None:
        axes = _need_pyplot().figure(figsize=tree.size(len(shown)), layout="constrained").add_subplot()
    tree.draw(axes, reading, shown, total, words, classes)
    return axes


def dependence_graph(model: Any, *, top: int = 30, names: Sequence[str] | None = None, axes: Any = None) -> Any:
    """The strongest edges of the graph that was learned between the columns of a mixed table.

    Every label is an encoded column: a numeric one in a round frame, a level of a categorical one in a square frame. Of a variable of
    two levels there is one column, and its other level is the opposite. Levels of one variable that are shown have a colour and are
    joined by a pale band, which is no edge. Columns without a drawn edge are not shown.

    A blue line joins columns that go together when all others are known: numbers that are both high or both low, levels that come
    together, a level where a number is high. A dashed orange line joins those that avoid each other: one is high, or there, where the
    other is low, or not there. The stronger the edge, the wider the line. Columns are near each other where few edges lie between them;
    else places mean nothing. They are the same in every call.

    Parameters
    ----------
    model : GraphSpectralFeatures
        Fitted.
    top : int, default=30
        Edges to draw: those of the largest ``|weight|``. A weight of 0 is no edge.
    names : sequence of str (p,), optional
        A name for every encoded column; None: `encoded_names_`. Long ones are shortened.
    axes : matplotlib Axes, optional
        Where to draw; None: a new figure, larger for more columns. Labels shrink where they have no room.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        The model has no `graph_`.
    ValueError
        All weights of the graph are 0, or the names are not one per encoded column.
    ImportError
        Without matplotlib or networkx.

    See Also
    --------
    craftc.GraphSpectralFeatures.edges : The same edges as a table.

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures, plot
    >>> from craftc.datasets import load_heart
    >>> model = GraphSpectralFeatures(random_state=0).fit(load_heart().data)
    >>> axes = plot.dependence_graph(model, top=1)
    >>> [label.get_text() for label in axes.texts]
    ['oldpeak', 'slope=1']
    """
    check_is_fitted(model)
    if not hasattr(model, "graph_") or not hasattr(model, "encoded_names_"):
        raise TypeError(f"plot.dependence_graph shows the graph_ of GraphSpectralFeatures; {type(model).__name__} has none.")
    check_number("top", top, least=1, whole=True)
    shown = graph.picture(model, top, names)
    networkx = graph.need_networkx()
    if axes is None:
        axes = _need_pyplot().figure(figsize=graph.size(len(shown.labels)), layout="constrained").add_subplot()
    graph.draw(axes, networkx, shown)
    return axes


def spectrum(model: Any, *, axes: Any = None) -> Any:
    """All eigenvalues of the graph's Laplacian, and which components the model keeps.

    A component of a small eigenvalue is smooth: columns with a strong edge between them have alike entries in it. Components are
    numbered from 1, the smoothest. A large gap behind the last that is kept says that the number of components is a natural one; where
    there is none, the components on both sides are hardly told apart, and a slightly different table may exchange them. Of many
    eigenvalues ``axes.set(xlim=(0, 20), ylim=(0, 1))`` shows the first ones closer.

    Parameters
    ----------
    model : GraphSpectralFeatures
        Fitted.
    axes : matplotlib Axes, optional
        Where to draw; None: a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        The model has no `spectrum_`.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures, plot
    >>> from craftc.datasets import load_heart
    >>> axes = plot.spectrum(GraphSpectralFeatures(4, random_state=0).fit(load_heart().data))
    >>> axes.get_legend().get_texts()[0].get_text()
    'kept: 4 of 22'
    """
    check_is_fitted(model)
    if not hasattr(model, "spectrum_") or not hasattr(model, "eigenvalues_"):
        raise TypeError(f"plot.spectrum shows the spectrum_ of GraphSpectralFeatures; {type(model).__name__} has none.")
    first = int(model.skip_first)
    if axes is None:
        axes = _need_pyplot().figure(figsize=graph.SPECTRUM, layout="constrained").add_subplot()
    graph.draw_spectrum(axes, np.asarray(model.spectrum_, np.float64), slice(first, first + len(model.eigenvalues_)))
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
