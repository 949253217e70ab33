"""
Wines with missing values
=========================

Missing values have no cost and enter no statistic: the clusters depend on the observed values. At which share
of missing values are the clusters lost? See :doc:`/tables`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from craftc import CRAFT

wine = load_wine(as_frame=True)
shares = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def agreement(share, seed, fill):
    """Adjusted Rand index with the cultivars, and K, for a share of missing values."""
    incomplete = wine.data.mask(np.random.default_rng(seed).random(wine.data.shape) < share)
    table = incomplete.fillna(incomplete.mean()) if fill else incomplete
    labels = CRAFT(random_state=0, missing="ignore").fit(table).labels_
    return adjusted_rand_score(wine.target, labels), labels.max() + 1


# %%
# Cells are removed at random, five times for every share. Imputation by the column mean is the usual
# alternative.

figure, (above, below) = plt.subplots(2, 1, figsize=(6, 5), sharex=True, layout="constrained")
for fill, colour, name in ((False, "#0072B2", "missing"), (True, "#D55E00", "mean imputation")):
    results = np.array([[agreement(share, seed, fill) for seed in range(5)] for share in shares])
    for axes, values in ((above, results[:, :, 0]), (below, results[:, :, 1])):
        axes.plot(shares, values.mean(axis=1), "o-", color=colour, label=name)
        axes.plot(shares, values, ".", color=colour, alpha=0.4)
above.set_ylabel("adjusted Rand index")
above.legend()
below.set(xlabel="share of missing values", ylabel="clusters")
plt.show()

# %%
# Covariances expect missing cells from the others of their row, so that one missing cell in ten costs no
# agreement. The imputed table falls below from the first cells on: imputed means count as measurements, and
# rows with many of them become similar to each other.
