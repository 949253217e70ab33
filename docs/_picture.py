"""The picture of README.md: ``python docs/_picture.py`` writes docs/_static/clusters.png."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[1]))  # an installed craftc comes first

from craftc import CRAFT, plot

PICTURE = Path(__file__).resolve().parent / "_static" / "clusters.png"
SIZES = (80, 65, 50, 40)
OWN = {
    0: range(0, 6),
    1: range(4, 10),
    2: range(9, 15),
    3: range(13, 19),
}  # the columns that define each cluster
N_COLUMNS = 22


def table(seed: int) -> NDArray[np.float64]:
    """Rows of four clusters, shuffled.

    A cluster is narrow around its own values in its own columns; one cell in twenty is missing.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(0.0, 2.5, (sum(SIZES), N_COLUMNS))
    labels = np.repeat(range(len(SIZES)), SIZES)
    for cluster, columns in OWN.items():
        for column in columns:
            rows = labels == cluster
            X[rows, column] = rng.normal(2.5 * (-1) ** (cluster + column // 2), 0.7, rows.sum())
    X[rng.random(X.shape) < 0.05] = np.nan
    return rng.permutation(X)


def main() -> None:
    X = table(seed=0)
    model = CRAFT(random_state=0).fit(X)
    with plt.rc_context({"font.size": 9}):
        figure, (before, after) = plt.subplots(
            1, 2, figsize=(8.0, 3.2), layout="constrained", width_ratios=(1, 1.05)
        )
        colours = plt.get_cmap("viridis").with_extremes(bad="white")
        before.imshow(X, aspect="auto", interpolation="nearest", cmap=colours, vmin=-5, vmax=5)
        before.set(
            xticks=[],
            yticks=[],
            xlabel=f"{X.shape[1]} columns",
            ylabel=f"{len(X)} rows",
            title="a table with missing values",
        )
        plot.tiles(model, X, order="selection", ax=after)
        after.set(
            xticks=[],
            xlabel="columns that define a cluster are coloured",
            title=f"CRAFT(): {model.n_clusters_} clusters",
        )
        figure.savefig(PICTURE, dpi=110, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    main()
