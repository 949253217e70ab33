"""Model files of KFeatures and BPMeans."""

from __future__ import annotations

from craftc._kernels.bpmeans import MOST
from craftc.bpmeans.estimators import BPMeans, KFeatures
from craftc.saved.archive import demand
from craftc.saved.fields import Array, Number, floats
from craftc.saved.layout import CONVERGED, FIT, FRAMES, Layout

_FIELDS = {
    **FRAMES,
    **FIT,
    **CONVERGED,
    "inertia_": Number(),
    "features_": floats("K", "D"),
    "assignments_": Array("bool", ("n", "K")),
    "objective_path_": floats("steps"),
    "penalty_interval_": Number(least=0.0, count=2),
}


def _complete(model: KFeatures | BPMeans) -> None:
    model.n_features_ = len(model.features_)
    demand(model.n_features_ <= MOST, f"it has {model.n_features_} features")


LAYOUTS = {
    "KFeatures": Layout(KFeatures, _FIELDS, _complete, ("init", "random_state")),
    "BPMeans": Layout(BPMeans, _FIELDS | {"feature_penalty_": Number()}, _complete, ("init", "random_state")),
}
