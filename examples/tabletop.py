"""Objects on a table: figure 2 of the MAD-Bayes paper, computed from the pictures.

    python examples/tabletop.py [TABLETOP.npz] [--out FOLDER]

Griffiths & Ghahramani's 100 pictures show a table with any of four objects on it. KFeatures finds table and
objects from the principal component scores. The program reads `tabletop.npz` with X (100, D), the scores, and
images (100, height, width, 3), the pictures. The path is the argument, or the file in the folder named by the
environment variable CRAFTC_DATA. Writes features.png (the five features) and pictures.png (some pictures with
their reconstructions below).

Broderick, Kulis & Jordan, "MAD-Bayes: MAP-based Asymptotic Derivations from Bayes", ICML 2013.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[1]))  # an installed craftc comes first

from craftc import KFeatures, plot

GAMMA = 0.5  # brightens the dark pictures
N_PICTURES = 8


def with_a_base(Z: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Equivalent memberships in which every row has the first feature.

    The scores are centred, so that no row is without a feature: two features divide the pictures between
    them, with an object and without it. A feature of all rows and one of the two give the same sums.
    """
    K = Z.shape[1]
    for first in range(K):
        for second in range(first + 1, K):
            if (Z[:, first] != Z[:, second]).all():
                return np.column_stack([np.ones(len(Z), bool), np.delete(Z, second, axis=1)])
    return Z


def that_add_light(Z: NDArray[np.bool_], pictures: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Invert the memberships of a feature that reduces brightness: its rows are those without the object.

    The base compensates for it.
    """
    Z = Z.copy()
    if Z[:, 0].all():
        light = np.linalg.lstsq(Z.astype(float), pictures, rcond=None)[0].sum(axis=1)
        Z[:, 1:] ^= light[1:] < 0
    return Z


def pictures_of(Z: NDArray[np.bool_], pictures: NDArray[np.float64]) -> NDArray[np.float64]:
    """The picture of each feature: least squares fit of the pictures by the memberships."""
    return np.asarray(np.linalg.lstsq(Z.astype(float), pictures, rcond=None)[0])


def bright(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.clip(picture, 0.0, 1.0) ** GAMMA)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "file", nargs="?", type=Path, default=Path(os.environ.get("CRAFTC_DATA", ".")) / "tabletop.npz"
    )
    parser.add_argument("--out", type=Path, default=Path("."), help="output folder")
    options = parser.parse_args(arguments)
    if not options.file.is_file():
        print(
            f"{options.file} does not exist; pass its path, or set CRAFTC_DATA to its folder.",
            file=sys.stderr,
        )
        return 1
    data = np.load(options.file)
    X, shape = data["X"], data["images"].shape[1:]
    pictures = data["images"].reshape(len(X), -1) / 255.0

    model: Any = KFeatures(5, n_init=300, random_state=0).fit(X)
    print(f"Five features: squared error {model.objective_:.1f} of {(X**2).sum():.1f}.")
    print(f"Number of features chosen automatically: {KFeatures(random_state=0).fit(X).n_features_}.")

    # the same model with the empty table as the base and one object per feature
    Z = that_add_light(with_a_base(model.assignments_), pictures)
    with_base = KFeatures(init=Z).fit(X)
    print(f"Squared error with a base that every row has: {with_base.objective_:.1f}.")
    Z = with_base.assignments_
    features = pictures_of(Z, pictures)
    options.out.mkdir(parents=True, exist_ok=True)
    figure = plot.features(with_base, shape, difference=False, to_pixels=lambda _: features)
    figure.savefig(options.out / "features.png", dpi=150)

    sums = Z.astype(float) @ features
    kinds = np.unique(Z, axis=0, return_index=True)[1]  # one picture for every set of objects
    chosen = np.sort(kinds)[np.linspace(0, len(kinds) - 1, N_PICTURES).round().astype(int)]
    figure, axes = plt.subplots(2, N_PICTURES, figsize=(1.7 * N_PICTURES, 3.1), layout="constrained")
    for (above, below), n in zip(axes.T, chosen, strict=True):
        above.imshow(bright(pictures[n].reshape(shape)))
        below.imshow(bright(sums[n].reshape(shape)))
        above.set_title(f"picture {n + 1}", fontsize=9)
        below.set_title("features " + " ".join(str(k) for k in np.flatnonzero(Z[n])), fontsize=9)
    for panel in axes.flat:
        panel.set(xticks=[], yticks=[])
    figure.savefig(options.out / "pictures.png", dpi=150)
    print(f"Wrote {options.out / 'features.png'} and {options.out / 'pictures.png'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
