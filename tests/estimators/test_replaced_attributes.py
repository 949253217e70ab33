"""A fitted array replaced by one of another shape is refused, because kernels check no index."""

from __future__ import annotations

import numpy as np
import pytest

from craftc import BPMeans, DPMeans, KFeatures

X = np.random.default_rng(0).normal(size=(30, 3)) + np.repeat([[0.0], [9.0], [18.0]], 10, axis=0)


MODELS = [
    (DPMeans(n_clusters=3), "cluster_centers_"),
    (KFeatures(3, n_init=1), "features_"),
    (BPMeans(n_init=1), "features_"),
]


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_replaced_arrays(model, name):
    model.set_params(random_state=0).fit(X)
    own = getattr(model, name)
    before = model.transform(X)
    for other in (
        own[:, :2].copy(),
        own[:0],
        own[1:],
        np.vstack([own, own]),
        own.astype(np.float32),
        own.tolist(),
        own[None],
    ):
        setattr(model, name, other)
        for method in ("predict", "transform"):
            if hasattr(model, method):
                with pytest.raises(
                    ValueError, match=rf"^{name} must be a C-contiguous array of float64 of shape \(\d, 3\)"
                ):
                    getattr(model, method)(X)
    setattr(model, name, own)
    np.testing.assert_array_equal(model.transform(X), before)
