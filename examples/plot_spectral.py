"""
Patients: which columns depend on each other
============================================

One graph for numbers and categories: an edge connects two columns that are dependent given all others. See
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
# The fifteen strongest edges. Blue lines are positive dependences, dashed orange lines negative ones; round
# frames are numbers, square frames levels of categories.

plot.dependence_graph(model, top=15)
plt.show()

# %%
# Reliability
# -----------
# 270 rows are few for about 200 edges. Graphs of two halves of the rows share only some of their ten
# strongest edges, so single edges are uncertain.

order = np.random.default_rng(0).permutation(len(heart.data))
one, other = (
    GraphSpectralFeatures(random_state=0).fit(heart.data.iloc[rows]).edges(10)
    for rows in (order[:135], order[135:])
)
print(len(one.merge(other, on=["source", "target"])), "of the ten strongest edges are in both halves")

# %%
# A few numbers per row
# ---------------------
# The smoothest eigenvectors of the graph define features of the rows. The spectrum has no gap after the
# fifth, so the number five is arbitrary.

plot.spectrum(model)
plt.show()

# %%
# The first two features, coloured by a class that was not used in the fit.

features = model.transform(heart.data)
figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, colour in (("absent", "#0072B2"), ("present", "#D55E00")):
    rows = heart.target == name
    axes.scatter(*features[rows, :2].T, s=12, color=colour, label=f"heart disease {name}")
axes.set(xlabel="first feature", ylabel="second feature")
axes.legend(fontsize=8)
plt.show()
