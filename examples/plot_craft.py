"""
Patients: clusters of a mixed table
===================================

270 patients, numbers and categories side by side, and a class (heart disease or not) that takes no part. Which groups are
there, and what makes each of them one? See :doc:`/craft`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from craftc import CRAFT
from craftc.datasets import load_heart
from craftc.metrics import contingency, purity

heart = load_heart()
model = CRAFT(random_state=0).fit(heart.data)  # nothing scaled, nothing encoded, no number of clusters
print(model.n_clusters_, "clusters of", model.cluster_sizes_, "rows")

# %%
# What makes each cluster one
# ---------------------------
# The gain of a feature is what the cluster's own description of it saves, in nats, over all rows of the cluster. It is on one scale
# for numbers and categories. A feature is selected where its gain exceeds what its parameters cost.

order = np.argsort(model.feature_gains_.sum(axis=0))
names = model.feature_names_in_[order]
style = {"figsize": (8, 4.2), "layout": "constrained"}
figure, panels = plt.subplots(1, model.n_clusters_, sharex=True, sharey=True, **style)
for k, axes in enumerate(panels):
    colours = np.where(model.feature_mask_[k, order], "#0072B2", "#C8C8C8")
    axes.barh(names, model.feature_gains_[k, order], color=colours)
    axes.set_title(f"cluster {k}: {model.cluster_sizes_[k]:.0f} patients")
    axes.set_xlabel("gain (nats); grey: not selected")
plt.show()

# %%
# In words, the four largest gains of each cluster. In the first heart rates are lower, the ST depression (oldpeak) is larger, and
# chest pain is more often of type 4, which means none; the second is its opposite.

summary = model.summary()
summary.groupby("cluster").head(4).drop(columns=["rows", "share"]).round(1)

# %%
# Why one row is where it is
# --------------------------
# ``explain`` says feature by feature by how many nats it speaks for the row's cluster, against the next best one. Here two patients;
# the second lies nearer to the border.

model.explain(heart.data.head(2)).drop(columns=["cluster", "next"]).T.round(2)

# %%
# Beside the class
# ----------------
# The clusters were not made to find the disease, and do so in part only. Someone who wants to predict it should train a classifier.

counts, classes, clusters = contingency(heart.target, model.labels_)
print(pd.DataFrame(counts, classes, clusters))
print(f"purity {purity(heart.target, model.labels_):.3f}")
