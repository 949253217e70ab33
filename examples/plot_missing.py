"""
Wines with holes: what missing cells do
=======================================

A missing cell costs nothing and counts nothing: the clusters rest on what was seen. How many holes can a table have before they are
lost? See :doc:`/tables`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT

wine = load_wine(as_frame=True)
shares = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def agreement(share, seed, fill):
    """Adjusted Rand index with the cultivars, and K, where that share of the cells is missing."""
    holes = wine.data.mask(np.random.default_rng(seed).random(wine.data.shape) < share)
    table = holes.fillna(holes.mean()) if fill else holes
    labels = CRAFT(random_state=0, missing="ignore").fit(table).labels_
    return adjusted_rand_score(wine.target, labels), labels.max() + 1


# %%
# Cells are taken away at random, five times for every share; filling the holes with the mean of the column is the usual other way.

figure, (above, below) = plt.subplots(2, 1, figsize=(6, 5), sharex=True, layout="constrained")
for fill, colour, name in ((False, "#0072B2", "left missing"), (True, "#D55E00", "filled with the mean")):
    results = np.array([[agreement(share, seed, fill) for seed in range(5)] for share in shares])
    for axes, values in ((above, results[:, :, 0]), (below, results[:, :, 1])):
        axes.plot(shares, values.mean(axis=1), "o-", color=colour, label=name)
        axes.plot(shares, values, ".", color=colour, alpha=0.4)
above.set_ylabel("adjusted Rand index")
above.legend()
below.set(xlabel="share of the cells that are missing", ylabel="clusters")
plt.show()

# %%
# Up to four cells in ten the two ways are alike. Beyond, the filled table loses its clusters first: the mean of a column looks like
# a measurement, and rows with many holes look like each other.
