"""Model files of CRAFT: the exact sums of its clusters, of the table as the model sees it and in the original
units, the masks that the search selected, and the same of the clusters of every step of the merge path.

Everything else follows from the sums, bit for bit, and is computed on loading.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.merge_path import Change, MergePath
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels.craft_cross_products import cross_width
from craftc.craft.background import Background
from craftc.craft.base import CraftBase
from craftc.craft.covariance import MOST_COLUMNS, CrossProducts
from craftc.craft.estimator import CRAFT
from craftc.craft.fitted import (
    CarriedSums,
    ColumnLinks,
    ExactSums,
    FittedClusters,
    PathClusters,
)
from craftc.craft.paper import PaperCRAFT
from craftc.craft.parameters import MODELS, SELECTIONS, ModelSpec
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    LARGEST,
    Array,
    Choice,
    Kind,
    Number,
    Optional,
    Ragged,
    Record,
    Records,
    Through,
    floats,
    integers,
    labels,
)
from craftc.saved.layout import FRAMES, Layout
from craftc.saved.table import SCHEMA, Sums, check_sums, encoding_of
from craftc.table.mixed_table import Schema
from craftc.table.moments import NUMERIC_CELLS, Moments
from craftc.table.numeric_encoding import NumericEncoding


class _Steps(NamedTuple):
    """A merge path: what its steps have, and how each follows from the one before."""

    n_clusters: NDArray[np.int64]  # (steps,)
    objectives: Floats  # (steps,)
    changes: list[Change]  # (steps - 1)


class _Along(NamedTuple):
    """The clusters of every step after the first."""

    sums: list[Integers]
    masks: list[Mask]
    cross: list[Integers] | None
    original: list[Integers] | None


@dataclass
class _Fitted:
    """What a fitted model follows from."""

    spec: ModelSpec
    schema: Schema
    encoding: NumericEncoding
    sums: Moments
    original: Moments | None  # None: those of the model, which sees the table as it is
    mask: Mask | None
    cross: CrossProducts | None
    path: _Steps | None
    along: _Along | None
    links: ColumnLinks


def _fitted_of(model: CraftBase) -> _Fitted:
    fitted = model._fitted
    path, along = fitted.path, fitted.along
    return _Fitted(
        fitted.spec,
        fitted.schema,
        fitted.encoding,
        fitted.sums.moments(),
        None if fitted.encoding.identity else fitted.original.moments(),
        fitted.mask,
        fitted.cross,
        None if path is None else _steps_of(path),
        None
        if along is None
        else _Along(list(along.sums)[1:], along.masks[1:], _later(along.cross), _later(along.original)),
        fitted.links,
    )


def _steps_of(path: MergePath) -> _Steps:
    n_clusters, objectives = zip(*path.objectives(), strict=True)
    return _Steps(np.array(n_clusters, np.int64), np.array(objectives), path.changes())


def _later(steps: CarriedSums | None) -> list[Integers] | None:
    return None if steps is None else list(steps)[1:]


def _links_of(state: dict[str, Any], schema: Schema) -> ColumnLinks:
    """The links between columns."""
    links = ColumnLinks(
        state["saving"], *([tuple(link) for link in state[name]] for name in ("pairs", "alike", "implied"))
    )
    for value in (links.saving, *(value for _, _, value in links.pairs + links.alike)):
        demand(isinstance(value, float) and 0.0 <= value <= LARGEST, "a link has no finite number")
    for a, b, _ in links.pairs + links.alike:
        known = type(a) is type(b) is int and 0 <= a < b < schema.n_columns
        demand(known, "a link joins columns that do not exist")
    n_levels = dict(zip(schema.categorical_index.tolist(), schema.n_levels.tolist(), strict=True))
    for link in links.implied:
        a, s, b, t = link
        known = 0 <= s < n_levels.get(a, 0) and 0 <= t < n_levels.get(b, 0)
        demand(known and {*map(type, link)} == {int}, "a level implies one that does not exist")
    return links


_SPEC = Record(
    ModelSpec,
    model=Choice(MODELS),
    selection=Choice(SELECTIONS),
    covariance=Choice(("auto", "diagonal", "full")),
)
_CHANGES = Records(
    Change,
    merged=integers(2, least=0),
    heirs=labels("clusters", below="K"),
    place=labels("clusters", below="K"),
    moved=Array("int32", ("moved",), 0),
    where=labels("moved", below="K"),
)
_FITTED = Record(
    _Fitted,
    spec=_SPEC,
    schema=SCHEMA,
    encoding=encoding_of("_fitted.schema"),
    sums=Sums("_fitted.encoding"),
    original=Optional(Sums("_fitted.schema")),
    mask=Optional(Array("uint8", ("K", "features"), 0, 1)),
    cross=Optional(
        Record(CrossProducts, columns=integers("covariance columns", least=0), sums=integers("K", "products"))
    ),
    path=Optional(Record(_Steps, n_clusters=integers("steps"), objectives=floats("steps"), changes=_CHANGES)),
    along=Optional(
        Record(
            _Along,
            sums=Ragged(integers("clusters", "_fitted.sums")),
            masks=Ragged(Array("uint8", ("clusters", "features"), 0, 1)),
            cross=Optional(Ragged(integers("clusters", "products"))),
            original=Optional(Ragged(integers("clusters", "_fitted.original"))),
        )
    ),
    links=Through(Kind(), asdict, _links_of, ("_fitted.schema",)),
)
_FIELDS = {
    **FRAMES,
    "n_iter_": Number(int),
    "converged_": Number(bool),
    "objective_path_": floats("passes"),
    "_fitted": _FITTED,
    "labels_": Optional(labels("n", below="K"), ABSENT),
    "cluster_margins_": Optional(floats("K", least=-np.inf, most=np.inf, missing=True), ABSENT),
    "margins_": Optional(Array("float32", ("n",), -np.inf, np.inf, missing=True), ABSENT),
    "_typical": Optional(Ragged(integers("rows", least=0))),
    "_unusual": Optional(integers("unusual", least=0)),
}


def _complete(model: CraftBase) -> None:
    stored: _Fitted = model.__dict__.pop("_fitted")
    moments, schema = stored.sums, stored.schema
    demand(schema.n_columns == model.n_features_in_, "the schema has another number of columns")
    original = _check(stored)
    own = getattr(model, "labels_", None)
    path = None if stored.path is None else _path(stored.path, own, moments.n_clusters)
    fitted = FittedClusters(
        stored.spec,
        schema,
        stored.encoding,
        ExactSums.of(moments, stored.encoding.schema),
        ExactSums.of(original, schema),
        stored.mask,
        stored.cross,
        path,
        None if path is None else _path_clusters(stored, path),
        stored.links,
    )
    model._set_fitted(fitted)
    _check_attributes(model)
    demand(own is not None or not hasattr(model, "margins_"), "the labels are missing")
    n = model._n_rows()
    demand((model._typical is None) == (model._unusual is None), "typical or unusual rows are not complete")
    if model._typical is not None and model._unusual is not None:
        demand(len(model._typical) == model.n_clusters_, "a cluster has no typical rows")
        known = all(bool((rows < n).all()) for rows in (*model._typical, model._unusual))
        demand(known, "typical or unusual rows are not in the table")


def _check(fitted: _Fitted) -> Moments:
    """What the kernels rely on, besides types, shapes and ranges; returns the sums in original units."""
    moments, spec = fitted.sums, fitted.spec
    grid, rows = moments.grid, moments.groups[:, 0]
    demand(len(rows) > 0 and bool((rows > 0).all()), "a cluster is empty")
    identity = fitted.encoding.identity
    demand(identity == (fitted.original is None), "the sums in original units are not complete")
    original = fitted.original = fitted.original or moments
    alike = np.array_equal(rows, original.groups[:, 0]) and moments.unit == original.unit
    demand(alike, "the two tables of sums have different clusters")
    demand((fitted.path is None) == (fitted.along is None), "the merge path is not complete")
    automatic = [spec.by_length, spec.pooled, fitted.mask is not None, fitted.path is not None]
    demand(all(automatic) or not any(automatic), "the masks or the merge path are not complete")
    if fitted.mask is not None:
        demand(fitted.mask.shape[1] == grid.p + grid.q, "the masks have a wrong shape")
        usable = Background(moments.total()).usable
        demand(bool((fitted.mask <= usable).all()), "the masks contain constant features")
    if fitted.cross is not None:
        demand(spec.pooled and spec.covariance != "diagonal", "the model holds no covariances")
        _check_products(fitted.cross, moments)
    return original


def _check_products(cross: CrossProducts, moments: Moments) -> None:
    """The sums of products of columns: their diagonal is that of the moments."""
    columns, sums, grid = cross.columns, cross.sums, moments.grid
    P = len(columns)
    fits = 2 <= P <= MOST_COLUMNS and bool((np.diff(columns) > 0).all()) and columns[-1] < grid.p
    demand(fits, "the columns of the covariances do not fit the model")
    demand(sums.shape[1] == cross_width(P), "the sums of products do not fit the model")
    complete = moments.present[:, columns] == moments.sizes[:, None]
    demand(bool(complete.all()), "a column of the covariances has missing values")
    squares = np.cumsum(np.arange(1, P + 1)) - 1  # the position of every square among the products
    for word in (0, 1):
        known = moments.groups[:, grid.first_numeric + NUMERIC_CELLS * columns + 3 + word]
        same = np.array_equal(sums[:, 2 * squares + word], known)
        demand(same, "the sums of products contradict the sums of squares")


def _check_attributes(model: CraftBase) -> None:
    """Impossible sums give densities, means or variances that are not possible."""
    held = model._fitted.original_moments.present > 0
    variances, shares = model.variances_[held], model.level_probabilities_
    values = [np.array(model.objective_), model.feature_gains_, model.centers_[held], variances, *shares]
    possible = all(bool(np.isfinite(each).all()) for each in values)
    possible &= all(bool((each >= 0).all()) for each in (variances, *shares))
    demand(possible, "the sums are not possible")


def _path(steps: _Steps, own: Labels | None, n_clusters: int) -> MergePath:
    """The merge path, without labels if the model has none (`own`)."""
    sizes = steps.n_clusters.tolist()
    downward = sizes[:1] == [n_clusters] and sizes[-1:] == [1] and all(a > b for a, b in pairwise(sizes))
    demand(
        downward and len(steps.changes) == len(sizes) - 1, "the merge path does not lead down to one cluster"
    )
    path = MergePath(own, n_clusters, float(steps.objectives[0]))
    for step, (change, (before, after)) in enumerate(zip(steps.changes, pairwise(sizes), strict=True), 1):
        i, j = map(int, change.merged)
        complete = i < j < before and len(change.heirs) == len(change.place) == before
        complete &= len(change.moved) == len(change.where)
        for to in (change.heirs, change.place, change.where):
            complete &= bool((to < after).all())
        complete &= not len(change.moved) or (own is not None and int(change.moved.max()) < len(own))
        demand(complete, "the merge path contains unknown clusters or rows")
        path.append_change(after, float(steps.objectives[step]), change._replace(merged=(i, j)))
    return path


def _path_clusters(fitted: _Fitted, path: MergePath) -> PathClusters:
    """The clusters of the steps of the merge path."""
    later, moments, original = fitted.along, fitted.sums, fitted.original
    assert later is not None
    assert fitted.mask is not None
    along = PathClusters.begin(moments, fitted.mask, fitted.cross)
    assert original is not None
    along.original = (
        None if original is moments else CarriedSums(original.groups, original.grid.first_numeric)
    )
    parts = ((along.sums, later.sums), (along.original, later.original), (along.cross, later.cross))
    usable, sizes = Background(moments.total()).usable, [K for K, _ in path.objectives()[1:]]
    demand(len(later.masks) == len(sizes), "the masks along the path are not complete")
    for sums, steps in parts:
        demand((sums is None) == (steps is None), "the sums along the path are not complete")
        if sums is None or steps is None:
            continue
        demand([len(groups) for groups in steps] == sizes, "the sums along the path are not complete")
        for groups, change in zip(steps, path.changes(), strict=True):
            if sums is not along.cross:
                check_sums(groups, (moments if sums is along.sums else original).grid, "those along the path")
                whole = bool((groups[:, 0] > 0).all()) and groups[:, 0].sum() == moments.groups[:, 0].sum()
                demand(whole, "the sums along the path are not those of the table")
            sums.append(change.place, groups)
    for mask, K in zip(later.masks, sizes, strict=False):
        demand(len(mask) == K and bool((mask <= usable).all()), "the masks along the path are not possible")
        along.masks.append(mask)
    return along


LAYOUTS = {
    kind.__name__: Layout(kind, _FIELDS, _complete, ("init", "random_state"), {"_fitted": _fitted_of})
    for kind in (CRAFT, PaperCRAFT)
}
