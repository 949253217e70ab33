"""
Patients: which columns depend on each other
============================================

Numbers and categories, one graph: an edge joins two columns that still tell about each other when all others are known. See
:doc:`/spectral`.
"""

import matplotlib.pyplot as plt
import numpy as np

from craftc import GraphSpectralFeatures, plot
from craftc.datasets import load_heart

heart = load_heart()
model = GraphSpectralFeatures(random_state=0).fit(heart.data)
model.edges(6).round(2)

# %%
# The fifteen strongest edges. Blue lines go together, dashed orange ones avoid each other; round frames are numbers, square ones
# levels of categories.

plot.dependence_graph(model, top=15)
plt.show()

# %%
# How far to trust it
# -------------------
# 270 rows are few for some 200 edges. Learned from two halves, the strongest ten have only some in common: single edges are hints.

order = np.random.default_rng(0).permutation(len(heart.data))
one, other = (GraphSpectralFeatures(random_state=0).fit(heart.data.iloc[rows]).edges(10) for rows in (order[:135], order[135:]))
print(len(one.merge(other, on=["source", "target"])), "of the ten strongest edges are in both halves")

# %%
# A few numbers per row
# ---------------------
# The smoothest eigenvectors of the graph make features of the rows. The spectrum has no gap behind the fifth, so five is a choice and
# no finding.

plot.spectrum(model)
plt.show()

# %%
# The first two, coloured by a class that took no part.

features = model.transform(heart.data)
figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, colour in (("absent", "#0072B2"), ("present", "#D55E00")):
    rows = heart.target == name
    axes.scatter(*features[rows, :2].T, s=12, color=colour, label=f"heart disease {name}")
axes.set(xlabel="first feature", ylabel="second feature")
axes.legend(fontsize=8)
plt.show()
