"""
Handwritten digits: k-means without k
=====================================

1797 pictures of 8 x 8 pixels. DP-means opens a cluster wherever a row is further than lambda from every centre. See
:doc:`/dp-means`.
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
# One traversal of the rows gives a lambda² for every number of clusters. A long step would be a good place to stop. After the
# first there is none here: a hint that these rows have no sharp number of clusters.

path = DPMeans().penalty_path(X, 40)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.step(np.arange(1, 41), path, where="mid", color="#0072B2")
axes.set(xlabel="clusters asked for", ylabel="lambda²")
plt.show()

# %%
# Left to itself, ``DPMeans`` takes the lambda² whose partition is told in the fewest nats. In 64 columns the serial mode of the paper
# shatters clusters; "delayed" opens one at a time.

for mode in ("serial", "delayed", "collapsed"):
    model = DPMeans(mode=mode).fit(X)
    agreement = adjusted_rand_score(digits.target, model.labels_)
    print(f"{mode:>9}: {model.n_clusters_} clusters, adjusted Rand index {agreement:.2f}")
told = KMeans(10, n_init=10, random_state=0).fit_predict(X)
print(f"  k-means: told 10 clusters, adjusted Rand index {adjusted_rand_score(digits.target, told):.2f}")

# %%
# The centres of "delayed", the commonest digit of each above it. Many digits have more than one: ones with and without a foot, sevens
# with and without a bar. That is what the rows look like, and no error; but it is not the ten that a person would count.

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
