"""Model files of CRAFT: the exact sums of its clusters, of the table as the model sees it and in the original
units, the masks that the search selected, and the same of the clusters of every step of the merge path.

Everything else follows from the sums, bit for bit, and is computed on loading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from craftc._common.merge_path import Change, MergePath
from craftc._common.typing import Floats, Integers, Labels, Mask
from craftc._kernels.craft_cross_products import cross_width
from craftc.craft.background import Background
from craftc.craft.base import CraftBase
from craftc.craft.changes import KINDS, Changes, Segment
from craftc.craft.estimator import CRAFT
from craftc.craft.fitted import (
    CarriedSums,
    ColumnLinks,
    FittedClusters,
    PathClusters,
    RowCounts,
    WeightColumn,
)
from craftc.craft.fixed import FixedClusters
from craftc.craft.one_factor import OneFactor
from craftc.craft.paper.estimator import PaperCRAFT
from craftc.craft.parameters import MODELS, SELECTIONS, ModelSpec
from craftc.craft.products import MOST_COLUMNS, CrossProducts
from craftc.craft.rows import Encoding
from craftc.craft.rows.scores import OUTLIER, MixtureFit
from craftc.saved.archive import demand
from craftc.saved.fields import (
    ABSENT,
    LARGEST,
    POSITIVE,
    Array,
    Kind,
    Optional,
    Ragged,
    Same,
    StoredChoice,
    StoredNumber,
    StoredRecord,
    StoredRecords,
    Through,
    floats,
    integers,
    labels,
)
from craftc.saved.layout import FRAMES, Layout
from craftc.saved.table import SCHEMA, check_sums, encoding_of, sums_of
from craftc.table.levels import LevelEncoding
from craftc.table.mixed_table import Schema
from craftc.table.moments import NUMERIC_CELLS, ExactSums, Moments


class _Steps(NamedTuple):
    """A merge path: what its steps have, and how each follows from the one before."""

    n_clusters: NDArray[np.int64]  # (steps,)
    objectives: Floats  # (steps,)
    changes: list[Change]  # (steps - 1)


class _Later(NamedTuple):
    """The clusters of every step after the first."""

    sums: list[Integers]
    masks: list[Mask]
    cross: list[Integers] | None
    original: list[Integers] | None


def _steps_of(path: MergePath) -> _Steps:
    n_clusters, objectives = zip(*path.objectives(), strict=True)
    return _Steps(np.array(n_clusters, np.int64), np.array(objectives), path.changes())


def _path_of(steps: _Steps, own: Labels | object) -> MergePath:
    """The merge path; `own` are the labels of the model, if it has any."""
    rows = own if isinstance(own, np.ndarray) else None
    sizes, costs = steps.n_clusters.tolist(), steps.objectives.tolist()
    downward = sizes[-1:] == [1] and all(a > b for a, b in pairwise(sizes))
    complete = downward and len(steps.changes) == len(sizes) - 1 == len(costs) - 1
    demand(complete, "the merge path does not lead down to one cluster")
    path = MergePath(rows, sizes[0], costs[0])
    for change, (before, after), objective in zip(steps.changes, pairwise(sizes), costs[1:], strict=True):
        i, j = map(int, change.merged)
        known = i < j < before and len(change.heirs) == len(change.place) == before
        known &= len(change.moved) == len(change.where)
        for to in (change.heirs, change.place, change.where):
            known &= bool((to < after).all())
        known &= not len(change.moved) or (rows is not None and int(change.moved.max()) < len(rows))
        demand(known, "the merge path contains unknown clusters or rows")
        path.append_change(after, objective, change._replace(merged=(i, j)))
    return path


def _later_of(along: PathClusters) -> _Later:
    """The clusters of every step after the first."""
    cross, original = (None if each is None else list(each)[1:] for each in (along.cross, along.original))
    return _Later(list(along.sums)[1:], along.masks[1:], cross, original)


def _along_of(
    later: _Later,
    sums: ExactSums,
    original: ExactSums,
    mask: Mask,
    cross: CrossProducts | None,
    path: MergePath,
    encoding: Encoding,
    spec: ModelSpec,
    rows: RowCounts | None,
) -> PathClusters:
    """The clusters of the steps of the merge path."""
    moments, sizes = sums.moments(), [K for K, _ in path.objectives()[1:]]
    along = PathClusters.begin(moments, mask, cross)
    if original is not sums:
        along.original = CarriedSums(original.groups, original.grid.first_numeric)
    parts = ((along.sums, later.sums), (along.original, later.original), (along.cross, later.cross))
    for carried, steps in parts:
        demand((carried is None) == (steps is None), "the sums along the path are not complete")
        if carried is None or steps is None:
            continue
        demand([*map(len, steps)] == sizes, "the sums along the path are not complete")
        for groups, change in zip(steps, path.changes(), strict=True):
            if carried is not along.cross:
                check_sums(groups, (sums if carried is along.sums else original).grid)
                whole = bool((groups[:, 0] > 0).all()) and groups[:, 0].sum() == sums.groups[:, 0].sum()
                demand(whole, "the sums along the path are not those of the table")
            carried.append(change.place, groups)
    if cross is not None:
        for groups, products in zip(later.sums, later.cross or [], strict=True):
            of_step = Moments.of_groups(moments.grid, moments.unit, groups)
            _check_products(replace(cross, sums=products), of_step)
    demand([*map(len, later.masks)] == sizes, "the masks along the path are not complete")
    _check_masks(later.masks, moments, encoding, cross, spec.tied, rows)
    along.masks += later.masks
    return along


def _links_of(state: dict[str, Any], schema: Schema) -> ColumnLinks:
    """The links between columns."""
    pairs, alike, implied = ([tuple(link) for link in state[name]] for name in ("pairs", "alike", "implied"))
    demand(state["factor"].keys() == asdict(OneFactor()).keys(), "the factor is unknown")
    factor = OneFactor(**state["factor"])
    links = ColumnLinks(state["saving"], pairs, alike, implied, factor, state["besides"])
    savings = (links.saving, factor.saving, links.besides)
    for value in (*savings, *(value for _, _, value in links.pairs + links.alike)):
        demand(isinstance(value, float) and 0.0 <= value <= LARGEST, "a link has no finite number")
    for a, b, _ in links.pairs + links.alike:
        known = type(a) is type(b) is int and 0 <= a < b < schema.n_columns
        demand(known, "a link joins columns that do not exist")
    known = all(type(j) is int and 0 <= j < schema.n_columns for j in factor.columns)
    demand(known and type(factor.separate) is bool, "a factor is behind columns that do not exist")
    n_levels = dict(zip(schema.categorical_index.tolist(), schema.n_levels.tolist(), strict=True))
    for link in links.implied:
        a, s, b, t = link
        known = 0 <= s < n_levels.get(a, 0) and 0 <= t < n_levels.get(b, 0)
        demand(known and {*map(type, link)} == {int}, "a level implies one that does not exist")
    return links


#: Parts of the state from which those of later steps follow.
_OF_STEPS = ("sums", "original", "mask", "cross", "path", "encoding", "spec", "rows")
_CHANGES = StoredRecords(
    Change,
    merged=integers(2, least=0),
    heirs=labels("clusters", below="K"),
    place=labels("clusters", below="K"),
    moved=Array("int32", ("moved",), 0),
    where=labels("moved", below="K"),
)
_MASK = Array("uint8", ("K", "features"), 0, 3)
_LATER = StoredRecord(
    _Later,
    sums=Ragged(integers("clusters", "width")),
    masks=Ragged(Array("uint8", ("clusters", "features"), 0, 3)),
    cross=Optional(Ragged(integers("clusters", "products"))),
    original=Optional(Ragged(integers("clusters", "original width"))),
)
_FITTED = StoredRecord(
    FittedClusters,
    spec=StoredRecord(
        ModelSpec,
        model=StoredChoice(MODELS),
        selection=StoredChoice(SELECTIONS),
        covariance=StoredChoice(("auto", "diagonal", "full", "tied")),
    ),
    schema=SCHEMA,
    encoding=encoding_of("_fitted.schema"),
    sums=sums_of("_fitted.encoding", "width"),
    original=Same("_fitted.sums", sums_of("_fitted.schema", "original width")),
    mask=Optional(_MASK),
    cross=Optional(
        StoredRecord(
            CrossProducts,
            columns=integers("covariance columns", least=0),
            sums=integers("K", "products"),
            prior=floats("covariance columns", "covariance columns", least=-1.0, most=1.0),
        )
    ),
    rows=Optional(
        StoredRecord(
            RowCounts,
            counts=integers("K", least=0),
            fixed=Array("uint8", ("K",), 0, 1),
            rest=integers("width"),
            original=integers("original width"),
            former=integers("K", "original width"),
            mask=Array("uint8", ("K", "features"), 0, 1),
        )
    ),
    path=Optional(
        Through(
            StoredRecord(_Steps, n_clusters=integers("steps"), objectives=floats("steps"), changes=_CHANGES),
            _steps_of,
            _path_of,
            ("labels_",),
        )
    ),
    along=Optional(Through(_LATER, _later_of, _along_of, tuple(f"_fitted.{name}" for name in _OF_STEPS))),
    links=Through(Kind(), asdict, _links_of, ("_fitted.schema",)),
    order=Optional(labels("K", below="K")),
)


def _changes_of(state: object) -> Changes:
    """What a refit has changed in the clusters."""
    demand(isinstance(state, dict) and state.keys() == asdict(Changes([], 0.0)).keys(), "changes_ is unknown")
    assert isinstance(state, dict)
    segments, kinds = [Segment(*each) for each in state["segments"]], [str, int, str, int, int, float, float]
    known = all([*map(type, each)] == kinds and each.change in KINDS for each in segments)
    numbers, notes = state["former_numbers"], state["notes"]
    known &= all(type(each) is int for each in numbers) and all(type(each) is str for each in notes)
    n_then = len(numbers)
    known &= all(max(each.former, each.other if each.change == "split" else -1) < n_then for each in segments)
    known &= state["_library"] in (None, "pandas", "polars") and type(state["rows"]) is float
    demand(known, "changes_ is not possible")
    return Changes(segments, state["rows"], notes, numbers, state["_library"])


_FIELDS = {
    **FRAMES,
    "n_iter_": StoredNumber(int),
    "converged_": StoredNumber(bool),
    "objective_path_": floats("passes"),
    "labels_": Optional(Array("int32", ("n",), OUTLIER), ABSENT),
    "_clusters_of_rows": Optional(Array("int32", ("n",), 0)),
    "_fitted": _FITTED,
    "_fixed": Optional(
        StoredRecord(
            FixedClusters,
            groups=integers("K", "width"),
            mask=_MASK,
            cross=Optional(integers("K", "products")),
            unit=StoredNumber(least=POSITIVE, most=LARGEST),
            price_factor=StoredNumber(least=POSITIVE, most=LARGEST),
            links=Through(Kind(), asdict, _links_of, ("_fitted.schema",)),
            counts=Optional(integers("K", least=0)),
        ),
        ABSENT,
    ),
    "_groups": Optional(Through(Kind(), str, str), ABSENT),
    "_weight": Optional(StoredRecord(WeightColumn, column=Through(Kind(), str, str)), ABSENT),
    "changes_": Optional(Through(Kind(), asdict, _changes_of), ABSENT),
    "cluster_margins_": Optional(floats("K", least=0.0, most=np.inf, missing=True), ABSENT),
    "margins_": Optional(Array("float32", ("n",), 0.0, np.inf, missing=True), ABSENT),
    "outlier_scores_": Optional(Array("float32", ("n",), -LARGEST, LARGEST), ABSENT),
    "_typical": Optional(Ragged(integers("rows", least=0))),
    "_unusual": Optional(integers("unusual", least=0)),
    "_slices": Optional(StoredNumber(int, least=2), ABSENT),
    "_pattern": Optional(StoredNumber(least=0.0, most=LARGEST), ABSENT),
    "_mixture": Optional(
        StoredRecord(
            MixtureFit,
            sizes=floats("K", least=0.0),
            log_likelihood=StoredNumber(least=-LARGEST, most=LARGEST),
            entropy=StoredNumber(least=0.0, most=LARGEST),
            clear=StoredNumber(least=0.0, most=LARGEST),
        )
    ),
}


def _complete(model: CraftBase) -> None:
    fitted, own = model._fitted, model._partition
    demand(fitted.schema.n_columns == model.n_features_in_, "the schema has another number of columns")
    _check(fitted)
    if isinstance(model, CRAFT) and model._fixed is not None:
        _check_fixed(model._fixed, fitted)
    known_clusters = own is None or bool(((own >= 0) & (own < len(fitted.sums.groups))).all())
    demand(known_clusters, "the labels contain unknown clusters")
    marked = model._clusters_of_rows is None or bool(((model.labels_ == own) | (model.labels_ < 0)).all())
    demand(marked, "the labels are not those of the clusters")
    demand(own is not None or not hasattr(model, "margins_"), "the labels are missing")
    model._set_fitted(fitted)
    _check_attributes(model)
    n = model._n_rows()
    demand((model._typical is None) == (model._unusual is None), "typical or unusual rows are not complete")
    if model._typical is not None and model._unusual is not None:
        demand(len(model._typical) == model.n_clusters_, "a cluster has no typical rows")
        known = all(bool((rows < n).all()) for rows in (*model._typical, model._unusual))
        demand(known, "typical or unusual rows are not in the table")


def _check(fitted: FittedClusters) -> None:
    """What the kernels rely on, besides types, shapes and ranges."""
    sums, original, spec, moments = fitted.sums, fitted.original, fitted.spec, fitted.sums.moments()
    demand(bool((sums.groups[:, 0] > 0).all()), "a cluster is empty")
    identity = fitted.encoding.identity
    demand(identity == (original is sums), "the sums in original units are not complete")
    alike = np.array_equal(sums.groups[:, 0], original.groups[:, 0]) and sums.unit == original.unit
    demand(alike, "the two tables of sums have different clusters")
    automatic = [spec.price is None, spec.pooled, fitted.path is not None, fitted.along is not None]
    demand(all(automatic) or not any(automatic), "the merge path is not complete")
    demand((fitted.mask is not None) == (spec.pooled or spec.couples), "the masks are not complete")
    demand(
        isinstance(fitted.encoding, LevelEncoding) == spec.pooled, "the columns are encoded for another model"
    )
    if fitted.mask is not None:
        _check_masks([fitted.mask], moments, fitted.encoding, fitted.cross, spec.tied, fitted.rows)
    if fitted.rows is not None:
        check_sums(fitted.rows.rest[None], sums.grid)
        check_sums(np.vstack([fitted.rows.original, fitted.rows.former]), original.grid)
        demand(bool((fitted.rows.counts[fitted.rows.fixed == 0] > 0).all()), "a cluster has no rows")
    if fitted.order is not None:
        every = np.array_equal(np.sort(fitted.order), np.arange(len(sums.groups)))
        demand(every, "the clusters are not numbered one by one")
    if fitted.path is not None:
        demand(fitted.path.objectives()[0][0] == len(sums.groups), "the merge path has other clusters")
    demand(0.0 <= spec.feature_sharing <= 1.0, "feature_sharing is not between 0 and 1")
    if fitted.cross is not None:
        demand(spec.pooled and spec.covariance != "diagonal", "the model holds no covariances")
        _check_products(fitted.cross, moments)


def _check_fixed(fixed: FixedClusters, fitted: FittedClusters) -> None:
    """Raise unless rows can be assigned by these clusters."""
    grid, scored = fitted.sums.grid, fitted.cross
    check_sums(fixed.groups, grid)
    moments = Moments.of_groups(grid, fixed.unit, fixed.groups)
    demand(bool((fixed.groups[:, 0] > 0).all()), "a cluster is empty")
    demand((fixed.cross is None) == (scored is None), "the sums of products are not complete")
    cross = None
    if scored is not None and fixed.cross is not None:
        cross = replace(scored, sums=fixed.cross)
        _check_products(cross, moments)
    _check_masks([fixed.mask], moments, fitted.encoding, cross, fitted.spec.tied, fitted.rows)


def _check_masks(
    masks: Sequence[Mask],
    moments: Moments,
    encoding: Encoding,
    cross: CrossProducts | None,
    tied: bool,
    rows: RowCounts | None,
) -> None:
    """Raise unless only columns that vary are selected, and only those with products are in covariances, of
    two columns or more, the same in all clusters if these are tied.
    """
    levels = encoding if isinstance(encoding, LevelEncoding) else None
    background = Background(moments.total(None if rows is None else rows.rest), levels)
    possible = background.usable.copy()
    if cross is not None:
        possible[background.levels_of_scores[cross.columns]] |= 2
    known = all(mask.shape[1] == len(possible) and not (mask & ~possible).any() for mask in masks)
    demand(known, "the masks contain features that no cluster can select")
    for block in (mask >> 1 for mask in masks):
        demand(bool((block.sum(axis=1) != 1).all()), "a covariance has one column")
        demand(not tied or bool((block == block[:1]).all()), "a shared covariance has different columns")


def _check_products(cross: CrossProducts, moments: Moments) -> None:
    """The sums of products of columns: their diagonal is that of the moments."""
    columns, sums, prior, grid = cross.columns, cross.sums, cross.prior, moments.grid
    P = len(columns)
    fits = 2 <= P <= MOST_COLUMNS and bool((np.diff(columns) > 0).all()) and columns[-1] < grid.p
    demand(fits, "the columns of the covariances do not fit the model")
    demand(
        sums.shape[1] == cross_width(P) and prior.shape == (P, P), "the sums of products do not fit the model"
    )
    squares = np.cumsum(np.arange(1, P + 1)) - 1  # the position of every square among the products
    missing = moments.present[:, columns] < moments.sizes[:, None]
    for word in (0, 1):
        known = moments.groups[:, grid.first_numeric + NUMERIC_CELLS * columns + 3 + word]
        same = bool((missing | (sums[:, 2 * squares + word] == known)).all())
        demand(same, "the sums of products contradict the sums of squares")
    expected = sums[:, P * (P + 1) :].reshape(len(sums), 2, P, 2)
    demand(not (expected.any(axis=(1, 3)) & ~missing).any(), "cells are expected where none is missing")
    correlations = np.array_equal(prior, prior.T) and bool((np.diag(prior) == 1.0).all())
    demand(correlations and bool((np.linalg.eigvalsh(prior) > 0).all()), "the correlations are not possible")


def _check_attributes(model: CraftBase) -> None:
    """Impossible sums give densities, means or variances that are not possible."""
    held = model._fitted.original_moments.present > 0
    variances, shares = model.variances_[held], model.level_probabilities_
    values = [np.array(model.objective_), model.feature_gains_, model.centers_[held], variances, *shares]
    possible = all(bool(np.isfinite(each).all()) for each in values)
    possible &= all(bool((each >= 0).all()) for each in (variances, *shares))
    demand(possible, "the sums are not possible")


LAYOUTS = {
    kind.__name__: Layout(kind, _FIELDS, _complete, ("init", "random_state")) for kind in (CRAFT, PaperCRAFT)
}
