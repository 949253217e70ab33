"""Model files of ConvexClustering."""

from __future__ import annotations

import numpy as np

from craftc._common.cluster_moments import ClusterMoments
from craftc.convex.estimator import ConvexClustering, RowsPoint
from craftc.saved.archive import demand
from craftc.saved.fields import LARGEST, POSITIVE, Number, Record, Records, floats, labels
from craftc.saved.layout import FIT, FRAMES, Layout

_FIELDS = {
    **FRAMES,
    "fusion_penalty_": Number(),
    **FIT,
    "duality_gap_": Number(),
    "cluster_centers_": floats("K", "D"),
    "labels_": labels("n", below="K"),
    "_moments": Record(
        ClusterMoments,
        sizes=floats("K", least=POSITIVE),
        means=floats("K", "D"),
        variances=floats("K", "D", least=0.0),
    ),
    "_points": Records(RowsPoint, labels=labels("n", below="n"), gap=Number(least=-LARGEST)),
}


def _complete(model: ConvexClustering) -> None:
    model._check_parameters()
    K = model.n_clusters_ = len(model.cluster_centers_)
    counted = np.bincount(model.labels_, minlength=K) == model._moments.sizes
    demand(bool(counted.all()), "the sizes of the clusters are not those of the labels")
    for point in model._points:
        demand(
            point.n_clusters == point.labels.max() + 1,
            "the path contains numbers of clusters that are not possible",
        )


LAYOUTS = {"ConvexClustering": Layout(ConvexClustering, _FIELDS, _complete, ("weights",))}
