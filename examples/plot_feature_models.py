"""
Handwritten digits as sums of strokes
=====================================

A row belongs to one cluster only, but features add up. ``KFeatures`` models a picture as the sum of some of K
features. See :doc:`/feature-models`.
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
# The first feature is part of every picture: the others are added to it, or (blue) subtracted from it.

plot.features(model, (8, 8), columns=4)
plt.show()

# %%
# Some digits, and the sums of their features.

rows = [int(np.flatnonzero(digits.target == digit)[0]) for digit in range(10)]
sums = model.reconstruct(X[rows])
figure, panels = plt.subplots(2, 10, figsize=(8, 2), layout="constrained")
for column, row in enumerate(rows):
    panels[0, column].imshow(X[row].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    panels[1, column].imshow(sums[column].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
for axes in panels.flat:
    axes.axis("off")
plt.show()

# %%
# Explained variance
# ------------------
# Principal components explain more of the variance, since each row has a real coefficient per component, but
# only one bit per feature. The intensity of strokes varies, so these digits are not an ideal table for binary
# features.

scatter = ((X - X.mean(axis=0)) ** 2).sum()
components = PCA(7, svd_solver="full").fit(X)
print(f"8 features:               {1 - model.objective_ / scatter:.2f} of the squares")
print(f"mean and 7 components:    {components.explained_variance_ratio_.sum():.2f}")
