"""The state of a fitted CRAFT in a model file.

The head: parameters, schema, encoding of the numeric columns, specification of the model (``rules``), and the scalars of the fit. The
arrays are the exact sums of every cluster (``groups``) and the grid on which they are integers (``centre``, ``scale``); the same of the
table in its original units (``shown_...``), where the encoding changes it; the masks that the search found (``mask``), under the pooled
background; the sums of products of columns (``cross_columns``, ``cross_sums``), where clusters hold covariances; and per row ``labels``,
``margins`` and the clusters along the merge path. Everything else follows from the sums, bit for bit, and is computed on loading.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from craftc._common.merge_path import MergeStep
from craftc._common.model_archive import Archive, Arrays, demand, plain_parameters, stored_parameters
from craftc._common.typing import Mask
from craftc._kernels.craft_cross_products import cross_width
from craftc._kernels.moments import Grid
from craftc.craft.background import Background
from craftc.craft.covariance import MOST_COLUMNS, CrossProducts
from craftc.craft.dependence import ColumnLinks
from craftc.craft.estimator import CRAFT
from craftc.craft.parameters import MODELS, ModelSpec
from craftc.table import Schema
from craftc.table.moments import NUMERIC_CELLS, Moments, level_starts
from craftc.table.numeric_encoding import NumericEncoding, Recipe

FORMAT_VERSION = 2  # 1: without the pooled background

_ARRAYS = {
    "groups": "int64",
    "centre": "float64",
    "scale": "float64",
    "labels": "int32",
    "margins": "float32",
    "cluster_margins": "float64",
    "objective_path": "float64",
    "merge_clusters": "int64",
    "merge_objectives": "float64",
    "merge_labels": "int32",  # or uint8: (rows, steps), so that a row's numbers are neighbours
}
_ORIGINAL_UNITS = {"shown_groups": "int64", "shown_centre": "float64", "shown_scale": "float64"}
_COVARIANCES = {"cross_columns": "int64", "cross_sums": "int64"}
_OPTIONAL = _ORIGINAL_UNITS | _COVARIANCES | {"mask": "uint8"}
_RENAMED = {"feature_sharing": "feature_variance", "sharing": "variance"}  # in files written before the names changed
_DEFAULTS: dict[str, Any] = {"absolute": False, "background": "table", "covariance": "diagonal"}  # of specifications in older files


def state_of(model: CRAFT) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model."""
    moments = model._moments
    head = {
        "parameters": plain_parameters(model, unused=("init", "random_state")),
        "schema": model.schema_.to_dict(),
        "encoding": model._encoding.to_dict(),
        "feature_names": hasattr(model, "feature_names_in_"),
        "rules": asdict(model._spec),
        "unit": moments.unit,
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "links": asdict(model._links),
    }
    arrays: Arrays = {
        "groups": moments.groups,
        "centre": moments.grid.centre,
        "scale": moments.grid.scale,
        "labels": model.labels_,
        "margins": model.margins_,
        "cluster_margins": model.cluster_margins_,
        "objective_path": model.objective_path_,
        **_path_arrays(model.merge_path_, len(model.labels_)),
    }
    if model._spec.pooled:
        arrays["mask"] = model._clusters.diagonal_mask
    if not model._encoding.identity:
        original = model._moments_original_units
        arrays |= {
            "shown_groups": original.groups,
            "shown_centre": original.grid.centre,
            "shown_scale": original.grid.scale,
        }
    held = model._clusters.covariances
    if held is not None:
        arrays |= {"cross_columns": held.cross.columns.astype(np.int64), "cross_sums": held.cross.sums}
    return head, arrays


def _path_arrays(steps: Sequence[MergeStep], n: int) -> Arrays:
    """The merge path as arrays; labels are uint8 up to 256 clusters."""
    labels = np.empty((n, len(steps)), np.result_type(np.uint8, *(step.labels for step in steps)))
    for column, step in zip(labels.T, steps, strict=True):
        column[:] = step.labels
    return {
        "merge_clusters": np.array([step.n_clusters for step in steps], np.int64),
        "merge_objectives": np.array([step.objective for step in steps], np.float64),
        "merge_labels": labels,
    }


def restored(archive: Archive) -> CRAFT:
    """The model; whatever the kernels rely on is checked here."""
    head, arrays = archive.head, _arrays(archive)
    schema, encoding = _columns(head)
    count_weight = head["unit"]
    valid = isinstance(count_weight, float) and 0 < count_weight < np.inf
    demand(valid, "the weight of a count is not a positive number")
    moments = original_units = _moments(arrays, "", encoding.schema, count_weight)
    if not encoding.identity:
        original_units = _moments(arrays, "shown_", schema, count_weight)
        alike = np.array_equal(moments.groups[:, 0], original_units.groups[:, 0])
        demand(alike, "the two tables of sums have different clusters")
    K, labels, margins = moments.n_clusters, arrays["labels"], arrays["margins"]
    demand(labels.ndim == 1, "labels have a wrong shape")
    demand(bool(((labels >= 0) & (labels < K)).all()), "the labels contain unknown clusters")
    demand(margins.shape == labels.shape, "margins have a wrong shape")
    demand(arrays["cluster_margins"].shape == (K,), "cluster_margins have a wrong shape")
    demand(arrays["objective_path"].ndim == 1, "objective_path has a wrong shape")

    parameters = {_RENAMED.get(name, name): value for name, value in stored_parameters(head).items()}
    model = CRAFT(**{"background": "table"} | parameters)  # a file of format 1 knows no other background
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # impossible sums
        try:
            spec = _spec(head["rules"])
            mask = _mask(arrays, moments) if spec.pooled else None
            model._set_state(moments, spec, schema, encoding, original_units, mask, _cross_products(arrays, moments, spec))
        except Warning as warning:
            raise ValueError(str(warning)) from warning
    model.labels_, model.objective_path_ = labels, arrays["objective_path"]
    model.margins_, model.cluster_margins_ = margins, arrays["cluster_margins"]
    model._set_path(_merge_path(arrays, K, len(labels)), _links(head.get("links"), schema.n_columns))
    model.n_iter_, model.converged_ = int(head["n_iter"]), bool(head["converged"])
    model.n_features_in_ = schema.n_columns
    if head["feature_names"]:
        model.feature_names_in_ = np.array(schema.columns, dtype=object)
    return model


def _arrays(archive: Archive) -> Arrays:
    """The arrays of the file, of the right types."""
    wanted = _ARRAYS | {name: dtype for name, dtype in _OPTIONAL.items() if name in archive}
    return {name: archive.array(name, (dtype, "uint8") if name == "merge_labels" else dtype) for name, dtype in wanted.items()}


def _spec(state: dict[str, Any]) -> ModelSpec:
    """The specification of the model, complete and of valid types."""
    state = _DEFAULTS | {_RENAMED.get(name, name): value for name, value in state.items()}
    spec = ModelSpec(**state)
    demand(state.keys() == asdict(spec).keys(), "the specification of the model is not complete")
    known = spec.model in MODELS
    known &= spec.selection in ("priced", "fixed", "free", "threshold", "global")
    known &= spec.background in ("table", "pooled") and spec.covariance in ("auto", "diagonal", "full")
    demand(known, "the model, selection, background or covariance is unknown")
    for name, value in state.items():
        text, optional = name in ("model", "selection", "background", "covariance"), name in ("price", "variance")
        fits = text or (value is None and optional) or type(value) in ((bool,) if name == "absolute" else (int, float))
        demand(fits, f"{name} has the wrong type")
    return spec


def _columns(head: dict[str, Any]) -> tuple[Schema, NumericEncoding]:
    """The columns of the table, and the encoding of the numeric ones."""
    schema = Schema.from_dict(head["schema"])
    positions = np.concatenate([schema.numeric_index, schema.categorical_index])
    each_once = sorted(positions.tolist()) == list(range(schema.n_columns))
    demand(each_once, "the schema does not fit its columns")
    complete = len(schema.levels) == len(schema.categorical_index) and schema.dtype in ("f4", "f8")
    demand(complete, "the schema is not complete")
    demand(schema.missing in ("ignore", "category", "error"), "the schema is not complete")
    encoding = NumericEncoding.from_dict(head["encoding"], schema)
    for recipe in encoding.recipes:
        demand(_possible(recipe), "the encoding of a numeric column is impossible")
    return schema, encoding


def _possible(recipe: Recipe) -> bool:
    """Whether a column can have this encoding."""
    values, scores = recipe.values, recipe.scores
    if values.ndim != 1 or scores.shape != (values.shape if recipe.rest == "ranks" else (0,)):
        return False
    if not np.isfinite([*recipe.spikes, *recipe.shares, *values, *scores]).all():
        return False
    if len(recipe.spikes) != len(recipe.shares) or not (np.diff(values) > 0).all():
        return False
    if recipe.rest == "numbers":
        return not len(values)
    return recipe.rest in ("values", "ranks") and len(values) > 0


def _moments(arrays: Arrays, prefix: str, schema: Schema, count_weight: float) -> Moments:
    """The exact sums of every cluster of a table with these columns."""
    centre, scale = arrays[f"{prefix}centre"], arrays[f"{prefix}scale"]
    p, n_levels = len(schema.numeric_index), schema.n_levels
    demand(centre.shape == scale.shape == (p,), "the grid does not fit the schema")
    finite = np.isfinite(centre) & np.isfinite(scale) & (scale > 0)
    demand(bool(finite.all()), "the grid is not finite")
    grid = Grid(centre, scale, level_starts(n_levels), int((n_levels + 1).sum()))
    groups = arrays[f"{prefix}groups"]
    fits = groups.ndim == 2 and len(groups) > 0 and groups.shape[1] == grid.width
    demand(fits, "the sums do not fit the schema")
    demand(bool((groups[:, 0] > 0).all()), "a cluster is empty")
    moments = Moments(grid, count_weight, len(groups))
    moments.groups[:] = groups
    return moments


def _mask(arrays: Arrays, moments: Moments) -> Mask:
    """The masks of the clusters under the pooled background."""
    mask = arrays["mask"]
    demand(mask.shape == (moments.n_clusters, moments.grid.p + moments.grid.q), "the masks have a wrong shape")
    usable = Background(moments.total()).usable
    demand(bool((mask <= usable).all()), "the masks contain constant features")
    return mask


def _cross_products(arrays: Arrays, moments: Moments, spec: ModelSpec) -> CrossProducts | None:
    """The sums of products of columns; their diagonal is that of the moments."""
    if "cross_columns" not in arrays and "cross_sums" not in arrays:
        return None
    columns, sums = arrays["cross_columns"].astype(np.intp), arrays["cross_sums"]
    grid, P = moments.grid, len(columns)
    fits = spec.with_covariances and columns.ndim == 1 and 2 <= P <= MOST_COLUMNS
    fits = fits and bool((np.diff(columns) > 0).all()) and columns[0] >= 0 and columns[-1] < grid.p
    demand(fits, "the columns of the covariances do not fit the model")
    demand(sums.shape == (moments.n_clusters, cross_width(P)), "the sums of products do not fit the model")
    complete = moments.present[:, columns] == moments.sizes[:, None]
    demand(bool(complete.all()), "a column of the covariances has missing values")
    squares = np.cumsum(np.arange(1, P + 1)) - 1  # the position of every square among the products
    for word in (0, 1):
        known = moments.groups[:, grid.first_numeric + NUMERIC_CELLS * columns + 3 + word]
        demand(np.array_equal(sums[:, 2 * squares + word], known), "the sums of products contradict the sums of squares")
    return CrossProducts(columns, np.ascontiguousarray(sums))


def _merge_path(arrays: Arrays, n_clusters: int, n: int) -> Sequence[MergeStep]:
    """The partitions of the merge path."""
    clusters, objectives = arrays["merge_clusters"], arrays["merge_objectives"]
    labels = arrays["merge_labels"]
    fits = labels.shape == (n, len(clusters)) and objectives.shape == clusters.shape
    demand(fits, "the merge path has a wrong shape")
    if not len(clusters):
        return []
    downward = clusters[0] == n_clusters and clusters[-1] == 1 and (np.diff(clusters) < 0).all()
    demand(bool(downward), "the merge path does not lead down to one cluster")
    steps = []
    for K, objective, column in zip(clusters.tolist(), objectives.tolist(), labels.T, strict=True):
        known = bool(((column >= 0) & (column < K)).all())
        demand(known, "the merge path contains unknown clusters")
        kind = np.uint8 if K <= 256 else np.int32
        steps.append(MergeStep(K, objective, column.astype(kind)))
    return steps


def _links(state: dict[str, Any] | None, n_columns: int) -> ColumnLinks:
    """The links between columns; files of earlier versions have none."""
    if state is None:
        return ColumnLinks()
    links = ColumnLinks(state["saving"], [(a, b, nats) for a, b, nats in state["pairs"]])
    for value in (links.saving, *(nats for *_, nats in links.pairs)):
        demand(isinstance(value, float) and 0.0 <= value < np.inf, "a link between columns saves no finite number of nats")
    for a, b, _ in links.pairs:
        demand(type(a) is type(b) is int and 0 <= a < b < n_columns, "a link joins columns that do not exist")
    return links
