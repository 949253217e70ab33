"""The state of a fitted CRAFT in a model file.

The head: parameters, schema, encoding of the numeric columns, specification of the model (``rules``), and the
scalars of the fit. The arrays are the exact sums of every cluster (``groups``) and the grid on which they are
integers (``centre``, ``scale``); the same of the table in its original units (``shown_...``), where the
encoding changes it; the masks that the search found (``mask``), under the pooled background; the sums of
products of columns (``cross_columns``, ``cross_sums``), where clusters hold covariances; and per row
``labels``, ``margins`` and the clusters along the merge path. The same sums and masks of the clusters of
every later step of the path (``path_...``) follow each other, as do the merged pairs (``path_pairs``);
``typical`` and ``unusual`` are positions of rows. A model whose rows lie elsewhere, in a Dask collection, has
no ``labels``; where the clusters go along the path (``path_places``, ``path_heirs``) is stored instead.
Everything else follows from the sums, bit for bit, and is computed on loading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from craftc._common.merge_path import Change, MergePath, MergeStep, objectives_of
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Labels, Mask
from craftc._common.validation import check_parameters
from craftc._kernels.craft_cross_products import cross_width
from craftc._kernels.moments import Grid
from craftc.craft.background import Background
from craftc.craft.covariance import MOST_COLUMNS, CrossProducts
from craftc.craft.dependence import ColumnLinks
from craftc.craft.estimator import CRAFT
from craftc.craft.levels import n_rows_of
from craftc.craft.parameters import MODELS, ModelSpec
from craftc.craft.rows.path_sums import PathClusters, moment_sums
from craftc.craft.rows.scores import MOST_TYPICAL
from craftc.saved.archive import Archive, Arrays, demand, plain_parameters, stored_parameters
from craftc.saved.columns import stored_encoding, stored_schema
from craftc.table import Schema
from craftc.table.moments import NUMERIC_CELLS, Moments, level_starts

FORMAT_VERSION = (
    4  # 1: without the pooled background; 2: without the sums along the merge path; 3: without checksum
)

_ARRAYS = {
    "groups": "int64",
    "centre": "float64",
    "scale": "float64",
    "objective_path": "float64",
    "merge_clusters": "int64",
    "merge_objectives": "float64",
}
_LABELS = {
    "labels": "int32",
    "merge_labels": "int32",
}  # the latter or uint8: (rows, steps), so that a row's numbers are neighbours
_CHANGES = {
    "path_places": "int32",
    "path_heirs": "int32",
}  # instead of labels, of a model whose rows lie elsewhere
_ORIGINAL_UNITS = {"shown_groups": "int64", "shown_centre": "float64", "shown_scale": "float64"}
_COVARIANCES = {"cross_columns": "int64", "cross_sums": "int64"}
_ROWS = {
    "margins": "float32",
    "cluster_margins": "float64",
    "typical": "int64",
    "unusual": "int64",
}  # not of a model from a merge path
_PATH = {
    "path_pairs": "int64",
    "path_groups": "int64",
    "path_mask": "uint8",
    "path_cross_sums": "int64",
    "path_shown_groups": "int64",
}
_OPTIONAL = _LABELS | _CHANGES | _ORIGINAL_UNITS | _COVARIANCES | _ROWS | _PATH | {"mask": "uint8"}
_RENAMED = {
    "feature_sharing": "feature_variance",
    "sharing": "variance",
}  # in files written before the names changed
_DEFAULTS: dict[str, Any] = {
    "absolute": False,
    "background": "table",
    "covariance": "diagonal",
}  # of specifications in older files


def state_of(model: CRAFT) -> tuple[dict[str, Any], Arrays]:
    """The head and the arrays of a fitted model."""
    moments = model._moments
    head = {
        "parameters": plain_parameters(model, unused=("init", "random_state")),
        "schema": model.schema_.to_dict(),
        "encoding": model._encoding.to_dict(),
        "feature_names": hasattr(model, "feature_names_in_"),
        "frame_library": model._frame_library,
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
        "objective_path": model.objective_path_,
        **_path_arrays(model.merge_path_),
    }
    if _has_rows(model):
        arrays |= _path_labels(model.merge_path_, model.labels_)
    elif isinstance(model.merge_path_, MergePath):
        arrays |= _path_changes(model.merge_path_)
    if hasattr(model, "cluster_margins_"):
        arrays["cluster_margins"] = model.cluster_margins_
        if _has_rows(model):
            arrays["margins"] = model.margins_
    if model._typical is not None and model._unusual is not None:
        typical = np.full((model.n_clusters_, MOST_TYPICAL), -1, np.int64)
        for line, rows in zip(typical, model._typical, strict=True):
            line[: len(rows)] = rows
        arrays |= {"typical": typical, "unusual": model._unusual.astype(np.int64)}
    if model._path_clusters is not None:
        arrays |= _path_sums(model._path_clusters, len(model.merge_path_) - 1)
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


def _has_rows(model: CRAFT) -> bool:
    """Whether the model holds the labels of the rows of its fit; those of a collection lie elsewhere."""
    return isinstance(getattr(model, "labels_", None), np.ndarray)


def _path_arrays(steps: Sequence[MergeStep]) -> Arrays:
    """The merge path without labels."""
    objectives, changes = objectives_of(steps), steps.changes() if isinstance(steps, MergePath) else []
    return {
        "merge_clusters": np.array([n_clusters for n_clusters, _ in objectives], np.int64),
        "merge_objectives": np.array([objective for _, objective in objectives], np.float64),
        "path_pairs": np.array([change.merged for change in changes], np.int64).reshape(-1, 2),
    }


def _path_labels(steps: Sequence[MergeStep], labels: Labels) -> Arrays:
    """The labels of the fit and of all steps, uint8 up to 256 clusters."""
    few = all(n_clusters <= 256 for n_clusters, _ in objectives_of(steps))
    of_steps = np.empty((len(labels), len(steps)), np.uint8 if few else np.int32)
    for column, step in zip(of_steps.T, steps, strict=True):
        column[:] = step.labels
    return {"labels": labels, "merge_labels": of_steps}


def _path_changes(path: MergePath) -> Arrays:
    """Where the clusters go at every step after the first, for a path without labels."""
    changes = path.changes()
    nothing = np.empty(0, np.int32)
    return {
        "path_places": np.concatenate([nothing, *(change.place for change in changes)]),
        "path_heirs": np.concatenate([nothing, *(change.heirs for change in changes)]),
    }


def _path_sums(along: PathClusters, n_steps: int) -> Arrays:
    """The sums and masks of the clusters of all steps after the first, one step after the other."""
    if not n_steps:
        return {}
    parts = {"path_groups": along.sums, "path_shown_groups": along.original, "path_cross_sums": along.cross}
    arrays = {name: np.concatenate(list(sums)[1:]) for name, sums in parts.items() if sums is not None}
    return arrays | ({"path_mask": np.concatenate(along.masks[1:])} if along.masks else {})


def restored(archive: Archive) -> CRAFT:
    """The model; whatever the kernels rely on is checked here."""
    head, arrays = archive.head, _arrays(archive)
    schema = stored_schema(head["schema"])
    encoding = stored_encoding(head["encoding"], schema)
    count_weight = head["unit"]
    valid = isinstance(count_weight, float) and 0 < count_weight < np.inf
    demand(valid, "the weight of a count is not a positive number")
    moments = original_units = _moments(arrays, "", encoding.schema, count_weight)
    if not encoding.identity:
        original_units = _moments(arrays, "shown_", schema, count_weight)
        alike = np.array_equal(moments.groups[:, 0], original_units.groups[:, 0])
        demand(alike, "the two tables of sums have different clusters")
    K, labels = moments.n_clusters, arrays.get("labels")
    demand("labels" in arrays or "path_places" in arrays, "the labels are missing")
    if labels is not None:
        demand(labels.ndim == 1, "labels have a wrong shape")
        demand(bool(((labels >= 0) & (labels < K)).all()), "the labels contain unknown clusters")
    demand(arrays["objective_path"].ndim == 1, "objective_path has a wrong shape")

    parameters = {_RENAMED.get(name, name): value for name, value in stored_parameters(head).items()}
    model = CRAFT(**{"background": "table"} | parameters)  # a file of format 1 knows no other background
    check_parameters(model)
    effective_n_threads(model.n_threads)
    spec = _spec(head["rules"])
    mask = _mask(arrays, moments) if spec.pooled else None
    model._set_state(
        moments, spec, schema, encoding, original_units, mask, _cross_products(arrays, moments, spec)
    )
    _check_numbers(model)
    if labels is not None:
        model.labels_ = labels
    model.objective_path_ = arrays["objective_path"]
    path = _merge_path(arrays, K, labels)
    model._set_path(path, _path_clusters(arrays, path, model), _links(head.get("links"), schema))
    _set_rows(model, arrays)
    model.n_iter_, model.converged_ = head["n_iter"], head["converged"]
    demand(type(model.n_iter_) is int and type(model.converged_) is bool, "the number of passes is not known")
    model.n_features_in_ = schema.n_columns
    library = model._frame_library = head.get("frame_library")
    demand(library in (None, "pandas", "polars"), f"the library of data frames is {library!r}")
    if head["feature_names"]:
        model.feature_names_in_ = np.array(schema.columns, dtype=object)
    return model


def _arrays(archive: Archive) -> Arrays:
    """The arrays of the file, of the right types."""
    wanted = _ARRAYS | {name: dtype for name, dtype in _OPTIONAL.items() if name in archive}
    return {
        name: archive.array(name, (dtype, "uint8") if name == "merge_labels" else dtype)
        for name, dtype in wanted.items()
    }


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
        text, optional = (
            name in ("model", "selection", "background", "covariance"),
            name in ("price", "variance"),
        )
        fits = (
            text
            or (value is None and optional)
            or type(value) in ((bool,) if name == "absolute" else (int, float))
        )
        demand(fits, f"{name} has the wrong type")
    return spec


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
    return Moments.of_groups(grid, count_weight, groups)


def _check_numbers(model: CRAFT) -> None:
    """Impossible sums give densities, means or variances that are not possible."""
    held = model._moments_original_units.present > 0
    finite = [
        np.array(model.objective_),
        model.feature_gains_,
        model.centers_[held],
        model.variances_[held],
        *model.level_probabilities_,
    ]
    possible = all(bool(np.isfinite(values).all()) for values in finite) and bool(
        (model.variances_[held] >= 0).all()
    )
    demand(
        possible and all(bool((shares >= 0).all()) for shares in model.level_probabilities_),
        "the sums are not possible",
    )


def _mask(arrays: Arrays, moments: Moments) -> Mask:
    """The masks of the clusters under the pooled background."""
    mask = arrays["mask"]
    demand(
        mask.shape == (moments.n_clusters, moments.grid.p + moments.grid.q), "the masks have a wrong shape"
    )
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
        demand(
            np.array_equal(sums[:, 2 * squares + word], known),
            "the sums of products contradict the sums of squares",
        )
    return CrossProducts(columns, np.ascontiguousarray(sums))


def _merge_path(arrays: Arrays, n_clusters: int, own: Labels | None) -> MergePath | None:
    """The partitions of the merge path, without labels if the model has none (`own`)."""
    clusters, objectives = arrays["merge_clusters"], arrays["merge_objectives"]
    demand(clusters.ndim == 1 and objectives.shape == clusters.shape, "the merge path has a wrong shape")
    demand(bool(np.isfinite(objectives).all()), "the merge path contains values that are not possible")
    if not len(clusters):
        return None
    downward = clusters[0] == n_clusters and clusters[-1] == 1 and (np.diff(clusters) < 0).all()
    demand(bool(downward), "the merge path does not lead down to one cluster")
    pairs = arrays.get("path_pairs")
    if pairs is not None:
        demand(pairs.shape == (len(clusters) - 1, 2), "the merged pairs have a wrong shape")
        ordered = (pairs[:, 0] >= 0) & (pairs[:, 0] < pairs[:, 1]) & (pairs[:, 1] < clusters[:-1])
        demand(bool(ordered.all()), "the merge path merges unknown clusters")
    if own is None:
        return _path_without_labels(arrays, clusters.tolist(), objectives.tolist())
    labels = arrays["merge_labels"]
    demand(labels.shape == (len(own), len(clusters)), "the merge path has a wrong shape")
    demand(bool(((labels >= 0) & (labels < clusters)).all()), "the merge path contains unknown clusters")
    demand(np.array_equal(labels[:, 0], own), "the merge path does not begin with the labels")
    path = MergePath(own, n_clusters, float(objectives[0]))
    for step, (K, objective) in enumerate(zip(clusters[1:].tolist(), objectives[1:].tolist(), strict=True)):
        pair = None if pairs is None else (int(pairs[step, 0]), int(pairs[step, 1]))
        path.append(K, objective, labels[:, step], labels[:, step + 1], pair)
    return path


def _path_without_labels(arrays: Arrays, clusters: list[int], objectives: list[float]) -> MergePath:
    """The merge path of a model whose rows lie elsewhere, from the changes between its steps."""
    demand({"path_pairs", "path_places", "path_heirs"} <= arrays.keys(), "the merge path is not complete")
    path, end = MergePath(None, clusters[0], objectives[0]), 0
    pairs, places, heirs = arrays["path_pairs"], arrays["path_places"], arrays["path_heirs"]
    demand(places.shape == heirs.shape == (sum(clusters[:-1]),), "the merge path has a wrong shape")
    for step, (before, after) in enumerate(pairwise(clusters)):
        of_step = slice(end, end := end + before)
        known = all(bool(((to[of_step] >= 0) & (to[of_step] < after)).all()) for to in (places, heirs))
        demand(known, "the merge path contains unknown clusters")
        i, j = pairs[step].tolist()
        path.append_change(after, objectives[step + 1], Change((i, j), heirs[of_step], places[of_step]))
    return path


def _path_clusters(arrays: Arrays, path: MergePath | None, model: CRAFT) -> PathClusters | None:
    """The clusters of the steps of the merge path; None in files of earlier versions, which hold only their
    labels.
    """
    if path is None or (len(path) > 1 and "path_groups" not in arrays):
        return None
    held = model._clusters.covariances
    mask = model._clusters.diagonal_mask if model._spec.pooled else None
    along = PathClusters.begin(model._moments, mask, None if held is None else held.cross)
    if not model._encoding.identity:
        along.original = moment_sums(model._moments_original_units)
    parts = {"path_groups": along.sums, "path_shown_groups": along.original, "path_cross_sums": along.cross}
    wanted = {name: sums for name, sums in parts.items() if sums is not None}
    widths = {name: sums.at(0).shape[1] for name, sums in wanted.items()} | (
        {} if mask is None else {"path_mask": mask.shape[1]}
    )
    demand(
        len(path) == 1 or widths.keys() == _PATH.keys() & arrays.keys() - {"path_pairs"},
        "the sums along the path are not complete",
    )
    sizes = [K for K, _ in path.objectives()[1:]]
    ends = np.cumsum(sizes)
    for name in widths.keys() & arrays.keys():
        demand(arrays[name].shape == (sum(sizes), widths[name]), f"{name} does not fit the merge path")
    if "path_mask" in arrays:
        demand(
            bool((arrays["path_mask"] <= model._clusters.background.usable).all()),
            "the masks contain constant features",
        )
    weight = int(model._moments.groups[:, 0].sum())
    for end, K, change in zip(ends, sizes, path.changes(), strict=True):
        rows = slice(end - K, end)
        for name, sums in wanted.items():
            of_step = np.ascontiguousarray(arrays[name][rows])
            complete = name == "path_cross_sums" or (
                bool((of_step[:, 0] > 0).all()) and int(of_step[:, 0].sum()) == weight
            )
            demand(complete, f"{name} does not sum to the table")
            sums.append(change.place, of_step)
        if along.masks:
            along.masks.append(np.ascontiguousarray(arrays["path_mask"][rows]))
    return along


def _set_rows(model: CRAFT, arrays: Arrays) -> None:
    """Margins, typical and unusual rows."""
    n, K = n_rows_of(model), model.n_clusters_
    if "cluster_margins" in arrays:
        demand(arrays["cluster_margins"].shape == (K,), "cluster_margins have a wrong shape")
        model.cluster_margins_ = arrays["cluster_margins"]
    if "margins" in arrays:
        demand("cluster_margins" in arrays and arrays["margins"].shape == (n,), "margins have a wrong shape")
        model.margins_ = arrays["margins"]
    model._typical, model._unusual = None, None
    if "typical" in arrays and "unusual" in arrays:
        typical, unusual = arrays["typical"], arrays["unusual"]
        demand(
            typical.ndim == 2 and len(typical) == K and unusual.ndim == 1,
            "typical or unusual rows have a wrong shape",
        )
        known = bool(
            (typical >= -1).all() and (typical < n).all() and (unusual >= 0).all() and (unusual < n).all()
        )
        demand(known, "typical or unusual rows are not in the table")
        model._typical, model._unusual = [line[line >= 0] for line in typical], unusual


def _links(state: dict[str, Any] | None, schema: Schema) -> ColumnLinks:
    """The links between columns; files of earlier versions have none."""
    if state is None:
        return ColumnLinks()
    pairs = [(a, b, nats) for a, b, nats in state["pairs"]]
    alike = [(a, b, share) for a, b, share in state.get("alike", ())]
    links = ColumnLinks(
        state["saving"], pairs, alike, [(a, s, b, t) for a, s, b, t in state.get("implied", ())]
    )
    for value in (links.saving, *(value for *_, value in pairs + alike)):
        demand(
            isinstance(value, float) and 0.0 <= value < np.inf, "a link between columns has no finite number"
        )
    for a, b, _ in pairs + alike:
        demand(
            type(a) is type(b) is int and 0 <= a < b < schema.n_columns,
            "a link joins columns that do not exist",
        )
    n_levels = dict(zip(schema.categorical_index.tolist(), schema.n_levels.tolist(), strict=True))
    for link in links.implied:
        a, s, b, t = link
        known = (
            all(type(number) is int for number in link)
            and 0 <= s < n_levels.get(a, 0)
            and 0 <= t < n_levels.get(b, 0)
        )
        demand(known, "a level implies one that does not exist")
    return links
