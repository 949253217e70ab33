"""
Tumours: a classifier with grouped measurements
===============================================

569 tumours, 30 measurements of their cells, malignant or benign. Many measurements are redundant: radius,
perimeter and area of a cell. ``ConvexCovariateClustering`` gives similar measurements a common coefficient.
See :doc:`/covariates`.
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
# No similarity is given: the default uses positive correlations. The evidence selects the grouping.

model = ConvexCovariateClustering().fit(train, y_train)
groups = pd.Series(model.covariate_labels_, train.columns)
for k in range(model.n_clusters_):
    print(
        f"group {k}, coefficient {model.coef_[1, groups.to_numpy() == k][0]:+.2f}: "
        f"{', '.join(groups.index[groups == k])}"
    )

# %%
# The tree of the path: one group at the right, separate measurements at the left, where the penalty is small.
# The dashed line is the selected penalty; the colour of a branch is the class that it supports.

plot.fusion_tree(model)
plt.show()

# %%
# A few sums instead of 30 coefficients are easier to interpret, and here hardly less accurate.

plain = LogisticRegression(max_iter=1000).fit(train, y_train)
print(f"{model.n_clusters_} groups:        {model.score(test, y_test):.3f} test accuracy")
print(f"30 coefficients: {plain.score(test, y_test):.3f}")

# %%
# Every point of the path is an optimum to the given tolerance, certified by its duality gap.

path = model.path_
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.semilogx(path.fusion_penalty, path.evidence, color="#0072B2")
axes.set(xlabel="fusion penalty", ylabel="evidence (nats)")
right = axes.twinx()
right.step(path.fusion_penalty, path.n_clusters, color="#D55E00", where="mid")
right.set_ylabel("groups", color="#D55E00")
plt.show()
print(f"largest relative gap: {path.gap.max():.0e}")
