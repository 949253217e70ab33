"""
Iris: a path of convex clusterings
==================================

In convex clustering every row has its own centre, and a penalty draws the centres of neighbours together
until they are equal. The optimum is unique and certified, and needs no start. See :doc:`/convex-clustering`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

from craftc import ConvexClustering
from craftc.metrics import contingency

iris = load_iris(as_frame=True)
X = iris.data[["petal length (cm)", "petal width (cm)"]].to_numpy()

# %%
# The centres at growing penalties, drawn as paths: each begins at its row and moves towards its neighbours.
# The penalties are every fourth of the model's path.

path = ConvexClustering().fit(X).path_
centres = [X]
for penalty in path.fusion_penalty[::-4]:
    model = ConvexClustering(float(penalty)).fit(X)
    centres.append(model.cluster_centers_[model.labels_])
steps = np.array(centres)
figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
axes.plot(steps[:, :, 0], steps[:, :, 1], color="0.75", linewidth=0.7)
axes.scatter(*X.T, c=iris.target, cmap="viridis", s=16, zorder=3)
axes.set(xlabel="petal length (cm)", ylabel="petal width (cm)")
plt.show()

# %%
# One species is separate over a long range of penalties. The other two overlap: at three clusters the path
# splits them, with a third of virginica in the cluster of versicolor.

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.loglog(path.fusion_penalty, path.n_clusters, drawstyle="steps-mid", color="#0072B2")
axes.set(xlabel="fusion penalty", ylabel="clusters")
plt.show()

for k in (2, 3):
    model = ConvexClustering(n_clusters=k).fit(X)
    print(f"n_clusters={k}, relative gap {model.duality_gap_:.0e}")
    counts, species, clusters = contingency(iris.target_names[iris.target], model.labels_)
    print(pd.DataFrame(counts, species, clusters))
