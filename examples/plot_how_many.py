"""
Wines: the number of clusters, and the cost of fewer
====================================================

178 wines, 13 measurements in their own units, three cultivars that are not used in the fit. The number of
clusters is estimated from the data; the merge path shows how well it is supported. See
:doc:`/how-many-clusters`.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine

from craftc import CRAFT, plot
from craftc.metrics import contingency

wine = load_wine(as_frame=True)
measured = wine.data.rename(columns={"od280/od315_of_diluted_wines": "od280/od315"})
model = CRAFT(random_state=0).fit(measured)
counts, cultivars, clusters = contingency(wine.target, model.labels_)
print(pd.DataFrame(counts, cultivars, clusters))

# %%
# The three clusters correspond to the cultivars. The path shows what fewer clusters save; the band, what
# clusters save in tables with permuted columns.

plot.path(model, model.null_test(measured, n=4))
plt.show()

# %%
# ``cut(2)`` returns the labels at two clusters without another fit.

counts, cultivars, clusters = contingency(wine.target, model.cut(2))
print(pd.DataFrame(counts, cultivars, clusters))

# %%
# The table, sorted by cluster. Coloured cells belong to features that the cluster selects; grey cells are
# modelled by the background. Dark cells are low in their column, yellow cells are high.

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
plot.tiles(model, measured, ax=axes)
plt.show()

# sphinx_gallery_thumbnail_number = 2
