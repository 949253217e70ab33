"""The answer of ``craftc cluster --json``: one JSON document."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np

from craftc import _about
from craftc._common.merge_path import objectives_of
from craftc.cli.page import Cluster, Result
from craftc.craft.rows.scores import OUTLIER
from craftc.describe.structure import nearly_as_good


def document(result: Result) -> str:
    """One JSON document in ASCII; `label` is the cluster as the model's `predict` returns it in Python."""
    roles, model, structure = result.roles, result.answer.model, result.structure
    objectives = objectives_of(model.merge_path_)
    within, nearly, _ = nearly_as_good(objectives, model.price_factor_)
    content: dict[str, object] = {
        "craftc": _about.version(),
        "table": result.table,
        "rows": len(roles.features),
        "missing_values": roles.n_missing,
        "columns": {
            "numeric": roles.numeric,
            "categorical": roles.categorical,
            "integer_codes": roles.codes,
            "not_used": roles.excluded,
        },
        "column_weights": dict(zip(model.schema_.columns, model._fitted.column_weights, strict=True)),
        "notes": [*roles.notes, *result.warnings],
        "n_clusters": model.n_clusters_,
        "objective": model.objective_,
        "objectives": [
            {"n_clusters": n_clusters, "objective": objective} for n_clusters, objective in objectives
        ],
        "n_clusters_nearly_as_good": {"nats": within, "n_clusters": nearly},
        "structure": {
            "kind": structure.kind,
            "sentence": structure.sentence,
            "saving": structure.saving,
            "null_savings": structure.null_savings,
            "sampled_rows": structure.n_sampled,
            "one_and_two": structure.one_and_two,
            "clear": structure.clear,
            "agreement": structure.agreement,
        },
        "price_factor": model.price_factor_,
        "dependence_ratio": model.dependence_ratio_,
        "column_links": [{"columns": [str(a), str(b)], "nats": saved} for a, b, saved in model.column_links_],
        "clusters": [
            _cluster(result, position, cluster) for position, cluster in enumerate(result.answer.clusters)
        ],
    }
    if model.outlier_price is not None:
        content["outliers"] = np.count_nonzero(model.labels_ == OUTLIER)
    # null where the rows lie on the workers of a cluster
    content["unusual_rows"] = None if result.unusual is None else [asdict(row) for row in result.unusual]
    if (target := result.target) is not None:
        content["target"] = {
            "column": target.name,
            "rows_without_value": target.n_missing,
            **target.measures(),
        }
    if (starts := result.starts) is not None:
        content["starts"] = {
            "seeds": starts.seeds,
            "n_clusters": starts.n_clusters,
            "objectives": starts.objectives,
            "agreement": starts.agreement,
        }
    if (stability := result.stability) is not None:
        content["stability"] = {"n_clusters": stability.n_clusters, "agreement": stability.agreement}
    if result.files:
        content["files"] = {"folder": result.folder, "names": list(result.files)}
    return json.dumps(_plain(content), indent=1, allow_nan=False)


def _cluster(result: Result, position: int, cluster: Cluster) -> dict[str, object]:
    view, k = result.answer.view, cluster.label
    content: dict[str, object] = {
        "number": cluster.number,
        "label": cluster.label,
        "name": cluster.name,
        "rows": cluster.rows,
        "share": cluster.share,
        "margin": cluster.margin,
        "features": [
            {
                "column": str(view.names[d]),
                "name": str(view.features[d]),
                "gain": view.gains[k, d],
                "selected": view.selected[k, d],
                "in_cluster": result.answer.values(k, d, whole=False),
                "in_table": result.answer.values(k, d, whole=True),
            }
            for d in cluster.features
        ],
    }
    if result.target is not None:
        content["target"] = result.target.values(position)
    if (stability := result.stability) is not None:
        content["stability"] = {
            name: getattr(stability, name)[cluster.label] for name in ("mean", "lowest", "found")
        }
    return content


def _plain(value: object) -> object:
    """A value of types that JSON has; a number that is not finite is null."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
