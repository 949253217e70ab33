"""What a fitted CRAFT or PaperCRAFT says about a table: its profile by cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats, FrameInput, Labels, TableInput, WeightInput
from craftc._common.validation import check_weight
from craftc.craft.base import CraftBase
from craftc.describe.profile import Groups, column_figures, plain_statistics
from craftc.describe.table_one import Profile, headings_of
from craftc.describe.view import order_by_size
from craftc.describe.words import clean, listing
from craftc.distributed.collections import is_collection
from craftc.table import MixedTable
from craftc.table.apart import as_names, columns_apart

_EFFECT = (
    "Effect size: SMD, the largest standardised difference of the means of two clusters; V, Cramer's V of "
    "levels. Shares of levels are those of the rows with a value."
)
_NO_TESTS = "The clusters were made from these columns, so that they have no p values."
_TESTS = "The clusters were made from the columns without a test, so that these have no p values."
_NOT_WHOLE = "No p values: weights that are not whole are no numbers of rows; leave out sample_weight."
_PREDICTED = (
    "The clusters of the rows are those of predict, because the rows or weights are not those of fit; pass "
    "the table and the sample_weight of fit for labels_."
)


class Described(CraftBase):
    """The method `profile`."""

    def profile(
        self, X: TableInput, *, also: str | Sequence[str] = (), sample_weight: WeightInput = None
    ) -> Profile:
        """Every column by cluster and in all rows: a Table 1.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D), MixedTable or files
            The table of `fit`, whose rows have their clusters of the fit, or other rows, which have their
            cheapest clusters; outliers belong to their clusters, too. With `also`: a frame or a dict.
        also : str or list of str, default=()
            Columns of X that took no part in the fit. They are read by their types, and tested: levels by the
            chi-squared test (with Yates' correction of a 2 x 2 table), numbers by that of Kruskal and Wallis,
            p values adjusted by Holm's method over these columns. The columns of the fit have no p values:
            clusters differ in the columns that made them.
        sample_weight : array (n,), optional
            Weights of the rows; a whole weight counts as that number of rows. With other weights variances
            are those of surveys, quartiles are values of the column, and there are no p values.

        Returns
        -------
        Profile
            Texts in `frame`, numbers in `figures`; `to_html`, `to_latex`, `to_word` and `to_excel` write it.
            Numbers have mean ± standard deviation of a sample (n - 1) and the median with the quartiles,
            levels n (%) of the rows with a value, periodic columns a mean direction. The effect size is the
            largest standardised difference of two clusters, or Cramer's V. A level that `fit` has not seen
            counts as missing. Levels that may identify persons are not shown.

        Raises
        ------
        TypeError, ValueError
            X is a Dask collection; a column of `also` is not in X or took part in the fit, or cannot be read.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> profile = CRAFT(random_state=0).fit(heart).profile(heart)
        >>> profile
        Profile(13 columns, 2 clusters)
        >>> profile.frame.iloc[:3, :5]
          column           statistic            all      cluster 1      cluster 0
        0   rows               n (%)    270 (100 %)     141 (52 %)     129 (48 %)
        1    age           mean ± SD  54.43 ± 9.109  50.89 ± 8.651   58.3 ± 7.977
        2    age  median (quartiles)  55 (48 to 61)  51 (44 to 57)  59 (54 to 64)
        """
        schema = self._fitted_state().schema
        if is_collection(X):
            raise TypeError(
                "profile reads the rows of one machine, but X is a Dask collection; pass a part of its rows "
                "with X.compute()."
            )
        names = as_names("also", also)
        if used := [name for name in names if name in schema.columns]:
            raise ValueError(
                f"also: {listing(map(repr, used))} took part in the fit, and every column of the fit is in "
                "the profile; leave it out."
            )
        others = None
        if names:
            apart = columns_apart(cast("FrameInput", X), names)
            if apart is None:
                raise ValueError(
                    f"also: X is no frame with the columns {listing(map(repr, names))}; pass a frame "
                    "that has the columns of fit and these."
                )
            X, rest = apart
            others = MixedTable.from_data(rest)
        table = self._read_columns(X)
        weight = check_weight(sample_weight, len(table))
        labels, notes = self._labels_of(table, weight)
        groups = Groups(labels, np.ones(len(table)) if weight is None else weight, self.n_clusters_)
        view, own = self._input_clusters(), self._own_names
        columns = column_figures(
            table, view.statistics, [clean(name) for name in view.features], groups, False
        )
        if others is not None:
            shown = [clean(own["columns"].get(name, name)) for name in names]
            columns += column_figures(others, plain_statistics(others), shown, groups, True)
            notes = [_NOT_WHOLE] * (not groups.whole) + notes
        headings = headings_of([own["clusters"].get(k) for k in range(self.n_clusters_)])
        notes = [_EFFECT, _TESTS if names else _NO_TESTS, *notes]
        sizes = groups.sizes
        return Profile(
            columns, sizes, order_by_size(sizes[:-1]).tolist(), headings, notes, self._frame_library
        )

    def _labels_of(self, table: MixedTable, weight: Floats | None) -> tuple[Labels, list[str]]:
        """The clusters of rows in the units of the table, and what to say about them."""
        fitted, encoded = self._fitted, self._fitted.encoding.apply(table)
        labels = self._partition
        known = labels if labels is not None and len(labels) == len(table) else None
        threads = effective_n_threads(self.n_threads)
        if known is not None and fitted.are_rows(encoded, weight, known, threads):
            return known, []
        found: Labels = fitted.clusters.cheapest(encoded, self._threads_of(len(table)))
        return found, [_PREDICTED]
