"""
Reading clusters: maps, trees and distributions
===============================================

A model of 270 patients in pictures: how large the groups are, which columns make each group, how close the
groups are to each other, where they overlap, what a column looks like in each, and which groups come
back. See :doc:`/craft`.
"""

import matplotlib.pyplot as plt

from craftc import CRAFT, plot
from craftc.datasets import load_heart

# sphinx_gallery_thumbnail_number = 3
heart = load_heart().data
model = CRAFT(4, random_state=0).fit(heart)  # more clusters than the table needs, to have a tree
for k in range(model.n_clusters_):
    print(f"cluster {k}: {model.cluster_sizes_[k]:3} patients, {model.cluster_names_[k]}")

# %%
# Which clusters are close
# ------------------------
# The merge path joins the two clusters whose union costs least, down to one cluster. Two branches of the tree
# meet at the cost, in nats, of all merges so far. Left of 0 are merges that pay for
# themselves; they show that four is too many. The dashed line is a cut at two clusters.

plot.merge_tree(model, n_clusters=2)
plt.show()

# %%
# ``at`` returns the fitted model at any number of clusters on this path, without a new fit.

few = model.at(2)
print(*few.cluster_names_, sep="\n")

# %%
# Which columns make which cluster
# --------------------------------
# Rows are clusters, the largest first; columns are features, by their gains. A cell has a colour where the
# cluster differs from the whole table, and its symbol repeats the direction.

plot.heatmap(model, n_features=10)
plt.show()

# %%
# Where rows lie
# --------------
# Dots are rows, areas hold 90 % of a cluster. A row is midway between two clusters if both describe it
# equally well, so areas overlap where rows may belong to either.

plot.map(model, heart)
plt.show()

# %%
# Sizes
# -----

plot.sizes(model)
plt.show()

# %%
# One column in every cluster
# ---------------------------
# From the model alone, a number is a mean and a standard deviation; with rows it is a histogram. Grey is the
# whole table.

plot.distribution(few, "max_hr", heart)
plt.show()

# %%
# Categories are shares of their levels.

plot.distribution(few, "chest_pain")
plt.show()

# %%
# The table itself
# ----------------
# Numbers are blue to yellow, categories are red, from the most frequent level to the rarest. A cell is grey
# where the cluster of its row does not differ from the whole table.

plot.tiles(few, heart, order="selection")
plt.show()

# %%
# Which clusters come back
# ------------------------
# Small dots are refits on 80 % of the rows, large ones their mean. From .75 on, the dashed line, a refit has
# found the cluster.

plot.stability(few.stability(heart, n=8, n_seeds=0), few)
plt.show()
