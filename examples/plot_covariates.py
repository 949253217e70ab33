"""
Tumours: a classifier whose measurements are grouped
====================================================

569 tumours, 30 measurements of their cells, malignant or benign. Many measurements say the same: radius, perimeter and area of a
cell. ``ConvexCovariateClustering`` lets those that are alike share a coefficient. See :doc:`/covariates`.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from craftc import ConvexCovariateClustering, plot

tumours = load_breast_cancer(as_frame=True)
classes = tumours.target_names[tumours.target]
train, test, y_train, y_test = train_test_split(tumours.data, classes, random_state=0, stratify=classes)
scaler = StandardScaler().set_output(transform="pandas").fit(train)
train, test = scaler.transform(train), scaler.transform(test)

# %%
# Nothing is said about which measurements are alike: the default takes positive correlations. The evidence chooses the grouping.

model = ConvexCovariateClustering().fit(train, y_train)
groups = pd.Series(model.covariate_labels_, train.columns)
for k in range(model.n_clusters_):
    print(f"group {k}, coefficient {model.coef_[1, groups.to_numpy() == k][0]:+.2f}: {', '.join(groups.index[groups == k])}")

# %%
# The tree of the path: from the right, where all are one group, to the left, where the penalty is small and each stands alone. The
# dashed line is the penalty that was chosen; branches have the colour of the class that they speak for.

plot.fusion_tree(model)
plt.show()

# %%
# A few sums in place of 30 coefficients: easier to read, and here hardly less accurate.

plain = LogisticRegression(max_iter=1000).fit(train, y_train)
print(f"{model.n_clusters_} groups:        {model.score(test, y_test):.3f} of the test rows right")
print(f"30 coefficients: {plain.score(test, y_test):.3f}")

# %%
# Every point of the path is an optimum to the tolerance asked for, and says so by its duality gap.

path = model.path_
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.semilogx(path.fusion_penalty, path.evidence, color="#0072B2")
axes.set(xlabel="fusion penalty", ylabel="evidence (nats)")
twin = axes.twinx()
twin.step(path.fusion_penalty, path.n_clusters, color="#D55E00", where="mid")
twin.set_ylabel("groups", color="#D55E00")
plt.show()
print(f"largest relative gap: {path.gap.max():.0e}")
