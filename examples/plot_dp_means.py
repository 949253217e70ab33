"""
Handwritten digits: k-means without k
=====================================

1797 pictures of 8 x 8 pixels, and DP-means with the radius of the paper: a cluster opens where a row is
farther than lambda from every centre. See :doc:`/dp-means`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from craftc import DPMeans

digits = load_digits()
X = digits.data

# %%
# One traversal of the rows gives a lambda² for every number of clusters. A large step indicates a suitable
# number. Here only the first step is large: these rows have no distinct number of clusters.

path = DPMeans().penalty_path(X, 40, scale="radius")
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.step(np.arange(1, 41), path, where="mid", color="#0072B2")
axes.set(xlabel="number of clusters", ylabel="lambda²")
plt.show()

# %%
# Each mode selects the lambda² of this path whose partition has the smallest description length. In 64
# columns the serial mode of the paper splits clusters into many pieces; "delayed" opens one cluster at a
# time.

for mode in ("serial", "delayed", "collapsed"):
    model = DPMeans(mode=mode).fit(X)
    agreement = adjusted_rand_score(digits.target, model.labels_)
    print(f"{mode:>9}: {model.n_clusters_} clusters, adjusted Rand index {agreement:.2f}")
labels = KMeans(10, n_init=10, random_state=0).fit_predict(X)
print(f"  k-means: 10 clusters (given), adjusted Rand index {adjusted_rand_score(digits.target, labels):.2f}")

# %%
# The centres of "delayed" with the most frequent digit of each. Many digits have several clusters: ones with
# and without a foot, sevens with and without a bar. These shapes do differ, but the clusters are not the ten
# digits.

model = DPMeans(mode="delayed").fit(X)
figure, panels = plt.subplots(3, 7, figsize=(8, 4), layout="constrained")
for axes in panels.flat:
    axes.axis("off")
for k, axes in enumerate(panels.flat[: model.n_clusters_]):
    inside = digits.target[model.labels_ == k]
    axes.imshow(model.cluster_centers_[k].reshape(8, 8), cmap="gray_r")
    counts = np.bincount(inside)
    axes.set_title(f"{counts.argmax()} ({counts.max() / len(inside):.0%} of {len(inside)})", fontsize=8)
plt.show()

# sphinx_gallery_thumbnail_number = 2
