"""
Wines: probabilities of clusters and of their features
======================================================

``FeatureSelectionMixture`` gives the probability that a row is in a cluster, and that a cluster selects a
feature. See :doc:`/mixture`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from craftc import FeatureSelectionMixture, plot
from craftc.metrics import contingency

wine = load_wine(as_frame=True)
measured = wine.data.rename(columns={"od280/od315_of_diluted_wines": "od280/od315"})
model = FeatureSelectionMixture(random_state=0).fit(measured)
counts, cultivars, clusters = contingency(wine.target, model.labels_)
print(pd.DataFrame(counts, cultivars, clusters))

# %%
# The clusters hardly mix the cultivars, but there are ten of them: ``n_components`` is 20 by default, and
# merges stop before three. This model does not estimate the number of clusters; ``CRAFT`` does, by a price
# (:ref:`sphx_glr_generated_gallery_plot_how_many.py`).

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
plot.tiles(model, measured, order="selection", ax=axes)
plt.show()

# %%
# The probability that a cluster selects a feature. In the three largest clusters most are close to 0 or 1.

largest = np.argsort(-model.cluster_sizes_)[:3]
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
picture = axes.imshow(model.feature_probabilities_[largest], cmap="viridis", vmin=0, vmax=1, aspect="auto")
axes.set_xticks(range(13), measured.columns, rotation=90)
axes.set_yticks(range(3), [f"cluster {k}" for k in largest])
figure.colorbar(picture, label="probability")
plt.show()

# %%
# Rows with a maximum probability below 0.9 lie between clusters.

probability = model.predict_proba(measured).max(axis=1)
print(f"{(probability < 0.9).sum()} of {len(probability)} rows below 0.9")
