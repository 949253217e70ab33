"""
Patients: clusters of a mixed table
===================================

270 patients, described by numbers and categories, and a class (heart disease or not) that is not used in the
fit. Which groups does the table contain, and which columns define each? See :doc:`/craft`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from craftc import CRAFT
from craftc.datasets import load_heart
from craftc.metrics import contingency, purity

heart = load_heart()
model = CRAFT(random_state=0).fit(heart.data)  # no scaling, no encoding, no number of clusters
print(model.n_clusters_, "clusters of", model.cluster_sizes_, "rows")

# %%
# Columns that define each cluster
# --------------------------------
# The gain of a feature is the description length, in nats over all rows of the cluster, that the cluster
# saves with its own distribution instead of that of the whole table. It is on one scale for numbers and
# categories. The summary lists the features in which a cluster differs from the whole table: those whose gain
# exceeds the cost of their parameters.

summary = model.summary()
order = np.argsort(model.feature_gains_.sum(axis=0))
names = model.feature_names_in_[order]
style = {"figsize": (8, 4.2), "layout": "constrained"}
figure, panels = plt.subplots(1, model.n_clusters_, sharex=True, sharey=True, **style)
for k, axes in enumerate(panels):
    differs = np.isin(names, summary.loc[summary["cluster"] == k, "feature"])
    colours = np.where(differs, "#0072B2", "#C8C8C8")
    axes.barh(names, model.feature_gains_[k, order], color=colours)
    axes.set_title(f"cluster {k}: {model.cluster_sizes_[k]:.0f} patients")
    axes.set_xlabel("gain (nats); grey: as in the whole table")
plt.show()

# %%
# The four largest gains of each cluster. In the first, heart rates are lower, the ST depression (oldpeak) is
# larger, and chest pain is more often of type 4, which means none; the second is the opposite.

summary.groupby("cluster").head(4).drop(columns=["rows", "share"]).round(1)

# %%
# Explanation of one row
# ----------------------
# ``explain`` returns for each feature the nats by which it supports the row's cluster over the next best one.
# Of these two patients the second is closer to the boundary.

model.explain(heart.data.head(2)).drop(columns=["cluster", "next"]).T.round(2)

# %%
# Comparison with the class
# -------------------------
# The clusters are not fitted to the disease, and agree with it in part only. To predict it, train a
# classifier.

counts, classes, clusters = contingency(heart.target, model.labels_)
print(pd.DataFrame(counts, classes, clusters))
print(f"purity {purity(heart.target, model.labels_):.3f}")
