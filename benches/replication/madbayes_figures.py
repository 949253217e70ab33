"""The MAD-Bayes paper's figures: numbers of features (1), tabletop features (2), features of faces (3).

Each function draws one figure from what `madbayes.py` reads and samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from craftc import BPMeans, KFeatures

Table = NDArray[np.float64]
_GAMMA = 0.5  # brightens the dark pictures of the table
_PENALTY = 20.0


def numbers_of_features(folder: Path, X: Table, sweeps: Sequence[int], n_starts: int) -> dict[str, list[int]]:
    """Figure 1: bars of the number of features, over Gibbs sweeps and over single starts."""
    printed: dict[str, Any] = {"n_init": 1, "exchanges": False, "n_threads": 1}
    found = {"Gibbs, sweeps": list(sweeps)}
    for name, collapsed, assignment in (("collapsed BP-means", True, "exact"), ("BP-means", False, "sweep")):
        models = (
            BPMeans(_PENALTY, collapsed=collapsed, assignment=assignment, random_state=seed, **printed)
            for seed in range(n_starts)
        )
        found[f"{name}, starts"] = [model.fit(X).n_features_ for model in models]
    stepwise = (
        KFeatures(feature_penalty=_PENALTY, assignment="sweep", random_state=seed, **printed)
        for seed in range(n_starts)
    )
    found["stepwise K-features, starts"] = [model.fit(X).n_features_ for model in stepwise]
    figure, axes = plt.subplots(1, len(found), figsize=(11, 2.6), sharex=True, layout="constrained")
    for axis, (name, numbers) in zip(axes, found.items(), strict=True):
        values, counts = np.unique(numbers, return_counts=True)
        axis.bar(values, counts / len(numbers))
        axis.set(title=name, xlabel="features")
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel("share")
    _save(figure, folder / "figure1.png")
    return found


def tabletop(folder: Path, X: Table, images: NDArray[np.uint8]) -> None:
    """Figure 2: what every feature adds to the pictures, for K = 5."""
    Z = KFeatures(5, random_state=0, n_threads=1).fit(X).assignments_.astype(np.float64)
    pixels = images.reshape(len(images), -1) / 255.0
    features = np.linalg.lstsq(Z, pixels, rcond=None)[0].reshape(-1, *images.shape[1:])
    everywhere = Z.mean(axis=0).argmax()
    figure, axes = plt.subplots(1, 5, figsize=(11, 2.2), layout="constrained")
    for k, axis in enumerate(axes):
        picture = features[k] if k == everywhere else features[everywhere] + features[k]
        axis.imshow(np.clip(picture, 0.0, 1.0) ** _GAMMA)
        axis.set(title=f"{Z[:, k].sum():.0f} pictures", xticks=[], yticks=[])
    _save(figure, folder / "figure2.png")


def faces(folder: Path, X: Table, side: int = 64) -> None:
    """Figure 3: K-features and k-means for K = 2, 3, 4; below a feature the pictures that have it."""
    figure, axes = plt.subplots(3, 8, figsize=(11, 4.6), layout="constrained")
    for row, K in zip(axes, (2, 3, 4), strict=True):
        features, centres = (
            KFeatures(K, random_state=0, n_threads=1).fit(X),
            KMeans(K, n_init=10, random_state=0),
        )
        labels = centres.fit_predict(X)
        shown = [
            (feature, used) for feature, used in zip(features.features_, features.assignments_.T, strict=True)
        ]
        shown += [(centre, labels == k) for k, centre in enumerate(centres.cluster_centers_)]
        for axis in row:
            axis.set_axis_off()
        for place, (picture, used) in enumerate(shown):
            axis = row[place if place < K else 4 + place - K]
            axis.imshow(picture.reshape(side, side), cmap="gray")
            axis.set_title(f"{'K-features' if place < K else 'k-means'}: {int(used.sum())}", fontsize=8)
    _save(figure, folder / "figure3.png")


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
