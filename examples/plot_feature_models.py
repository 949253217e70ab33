"""
Handwritten digits as sums of strokes
=====================================

A cluster is a row's only one; features add up. ``KFeatures`` tells a picture by which of K features are in it. See
:doc:`/feature-models`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from craftc import KFeatures, plot

digits = load_digits()
X = digits.data
model = KFeatures(8, random_state=0).fit(X)
print(model.summary().head(4))

# %%
# The first feature is in every picture: it is the base that the others are added to, or (blue) taken away from.

plot.features(model, (8, 8), columns=4)
plt.show()

# %%
# Some digits, and the sums of their features.

shown = [int(np.flatnonzero(digits.target == digit)[0]) for digit in range(10)]
sums = model.reconstruct(X[shown])
figure, panels = plt.subplots(2, 10, figsize=(8, 2), layout="constrained")
for column, row in enumerate(shown):
    panels[0, column].imshow(X[row].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    panels[1, column].imshow(sums[column].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
for axes in panels.flat:
    axes.axis("off")
plt.show()

# %%
# How much is told
# ----------------
# Principal components tell more of the table, for they come in amounts: a number for each row and component, where a feature is one
# bit. Strokes of pictures come in amounts, too, so these digits are no ideal table for features that are there or not.

scatter = ((X - X.mean(axis=0)) ** 2).sum()
components = PCA(7, svd_solver="full").fit(X)
print(f"8 features:               {1 - model.objective_ / scatter:.2f} of the squares")
print(f"mean and 7 components:    {components.explained_variance_ratio_.sum():.2f}")
