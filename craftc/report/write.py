"""Writing the report of a fitted model."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from craftc._common.atomic_write import replacing
from craftc._common.typing import EncodedTable, FrameInput, Ints, PathInput
from craftc.craft.answers.path import NullTest, WithMergePath, structure_of
from craftc.craft.answers.stability import Stability
from craftc.craft.base import CraftBase
from craftc.describe import words
from craftc.describe.structure import CLEAR
from craftc.reading.read_table import as_in_fit
from craftc.reading.unusable import known_columns
from craftc.report.cautions import cautions
from craftc.report.page import Page, display_order
from craftc.report.reproduce import reproduce
from craftc.report.target import read_target, take_target
from craftc.table import MixedTable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def write(
    model: CraftBase,
    table: FrameInput | EncodedTable | PathInput,
    path: str | os.PathLike[str],
    *,
    target: str | ArrayLike | None = None,
    stability: Stability | None = None,
    null_test: NullTest | Literal["auto"] | None = "auto",
    agreement: Sequence[float] = (),
    title: str | None = None,
) -> None:
    """Write a page that explains the clusters of a model to the people who use them.

    The page is one file of HTML: it needs no network and no JavaScript, and fits a phone, a large screen and
    paper. It shows the groups and their sizes, what sets each apart from the whole table, which groups are
    close, typical and unusual rows, linked columns, how sure all of this is, and how to compute it again. The
    same model and table give the same bytes. Needs Jinja2 (``pip install 'craftc[app]'``).

    Parameters
    ----------
    model : CRAFT
        A fitted CRAFT, or PaperCRAFT with ``model="likelihood"``; ``model.at(k)`` shows fewer clusters.
    table : data frame, dict of columns, array (n, D), MixedTable or path
        The table of `fit`, its rows in the same order. A file, and a frame with texts or dates, are read as
        in the fit.
    path : path
        The file to write; an existing file is replaced.
    target : str or array-like (n,), optional
        A column that took no part in the fit and is compared with the clusters: classes, or numbers. The name
        of a column of `table`, which is then taken out of it, or its values.
    stability : object, optional
        The result of ``model.stability(table)``. Refits take time, so the page does without by default and
        says how to get it.
    null_test : NullTest, "auto" or None, default="auto"
        The result of ``model.null_test(table)``. "auto": one table with permuted columns, of at most
        16 384 rows, is fitted; not after a fit with weights or `fixed`, nor for a PaperCRAFT. None: left out.
    agreement : sequence of float, default=()
        Adjusted Rand indices of the model with fits from other seeds, apart from those of `stability`.
    title : str, optional
        Shown above the headline and in the title of the window, for example the name of the table.

    Raises
    ------
    ImportError
        Jinja2 is not installed.
    NotFittedError, ValueError, TypeError
        The model is no CRAFT, is not fitted or defines no probabilities; the table is not that of `fit`, or
        after a fit with weights has another number of rows; the target has no values, or not one for each
        row, or is a column of the model; the stability or the null test is of other clusters.

    Examples
    --------
    >>> import tempfile, pathlib, craftc
    >>> from craftc.datasets import load_heart
    >>> heart = load_heart()
    >>> model = craftc.CRAFT(random_state=0).fit(heart.data)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "heart.html"
    >>> craftc.report.write(model, heart.data, path, target=heart.target, title="heart")
    >>> "The 270 rows fall into 2 pieces of a gradual pattern" in path.read_text(encoding="utf-8")
    True
    """
    environment = _environment()
    if not isinstance(model, CraftBase):
        raise TypeError(f"A report describes the clusters of a CRAFT, got {type(model).__name__}.")
    check_is_fitted(model)
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"A report needs probabilities, which model={model.model!r} does not define; fit with "
            "model='likelihood'."
        )
    read_table, _ = as_in_fit(model, table, target if isinstance(target, str) else None)
    table = cast("FrameInput | EncodedTable", read_table)
    taken = None
    if target is not None:
        if isinstance(target, str) and target in model.schema_.columns:
            raise ValueError(
                f"The target {target!r} is a column of the model; name a column that took no part in the fit."
            )
        table, taken = take_target(table, target)
    cells = _cells(model, table)
    if not isinstance(stability, Stability | None):
        raise TypeError(
            f"stability must be the result of model.stability(table), got {type(stability).__name__}."
        )
    if stability is not None and (found := stability.overlap.shape[1]) != model.n_clusters_:
        raise ValueError(
            f"The model has {model.n_clusters_} clusters, stability is of {found}; pass the stability of "
            "this model."
        )
    read = None if taken is None else read_target(*taken, display_order(model)[1], model.n_clusters_)
    structure = structure_of(model, _null_test(model, cells, null_test), stability, agreement)
    title = "" if title is None else words.clean(title)
    page = Page(model, cells, read, stability, title, structure, _numbers_of_rows(table, len(cells)))
    html = environment.get_template("report.html.j2").render(
        r=page, clear=CLEAR, cautions=cautions(page), again=reproduce(page)
    )
    with replacing(path) as file:
        file.write(html)


def _cells(model: CraftBase, table: FrameInput | EncodedTable) -> MixedTable:
    if model.unusable == "drop":
        table = known_columns(table, model.schema_.columns)
    cells: MixedTable = model.schema_.encode(table, estimator_name=type(model).__name__)
    if not isinstance(getattr(model, "labels_", None), np.ndarray):
        raise ValueError(
            "This model holds no labels of its rows, which lie in a Dask collection; fit a sample of the "
            "rows for a report."
        )
    if len(cells) != len(model.labels_):
        raise ValueError(
            f"The table has {len(cells)} rows, but the model was fitted on {len(model.labels_)}; pass the "
            "table of fit."
        )
    if not _weighted(model):  # sums of rows with weights cannot be compared
        model._rows_of_fit(cells, None)
    return cells


def _numbers_of_rows(table: object, n: int) -> Ints:
    """The places of rows in their file, which the index of a frame of `read_table` has; else 0, 1, 2, ..."""
    index = np.asarray(getattr(table, "index", ()))
    whole = index.shape == (n,) and index.dtype.kind in "iu"
    return index.astype(np.intp) if whole else np.arange(n)


def _weighted(model: CraftBase) -> bool:
    rows = np.bincount(np.asarray(model._partition), minlength=model.n_clusters_)
    return not np.array_equal(rows, model.cluster_sizes_)


def _null_test(model: CraftBase, cells: MixedTable, given: object) -> NullTest | None:
    """The test that was given, or one table with permuted columns."""
    if isinstance(given, NullTest):
        if not given.sampled and given.n_clusters != model.n_clusters_:
            raise ValueError(
                f"The model has {model.n_clusters_} clusters, null_test is of {given.n_clusters}; pass the "
                "null test of this model."
            )
        return given
    if given is not None and given != "auto":
        raise TypeError(
            f"null_test must be the result of model.null_test(table), 'auto' or None, got {given!r}."
        )
    fits = given == "auto" and isinstance(model, WithMergePath) and not _weighted(model)
    fits = fits and model._fitted.rows is None  # fixed clusters are not fitted again
    return model.null_test(cells, 1) if fits else None


def _environment() -> Environment:
    """The templates and what they call."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise ImportError("Reports need Jinja2: pip install 'craftc[app]'.") from error
    return _loaded_templates()


@cache
def _loaded_templates() -> Environment:
    """The templates, compiled once in a process."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_unbroken,
    )
    environment.filters |= {
        name: getattr(words, name) for name in ("percent", "count", "nats", "ratio", "plural", "shortened")
    }
    environment.globals["float_inf"] = math.inf
    environment.filters["breakable"] = _breakable
    return environment


def _unbroken(value: object) -> object:
    """A text in which a line does not break before a per cent sign."""
    return value.replace(" %", "\u00a0%") if isinstance(value, str) else value


def _breakable(name: str) -> Markup:
    """A name that may break after an underscore, escaped."""
    from markupsafe import Markup

    return Markup("_<wbr>").join(name.split("_"))
