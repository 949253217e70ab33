"""What a fitted CRAFT says about a table: its profile by cluster, rules of the clusters, rows that fit no
cluster and cells that are odd in the cluster of their row (craftc/craft/rows/scores.py defines the last two).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from craftc._common.estimator import frame_library, output_frame
from craftc._common.messages import warn_user
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Floats, FrameInput, Labels, OutputFrame, TableInput, WeightInput
from craftc._common.validation import check_number, check_weight
from craftc.craft.base import CraftBase
from craftc.craft.rows.scores import (
    OUTLIER,
    RowStatistics,
    is_whole_table,
    marked,
    outlier_scores_of,
    surprisals,
)
from craftc.describe.columns import CategoricalColumn
from craftc.describe.profile import Groups, column_figures, plain_statistics
from craftc.describe.rule_search import Histograms, ModelHistograms, RowHistograms, best_rule, small_tree
from craftc.describe.rules import RuleColumn, Rules
from craftc.describe.table_one import Profile, headings_of
from craftc.describe.view import order_by_size
from craftc.describe.words import clean, listing, percent, plural
from craftc.distributed.collections import is_collection, rowwise
from craftc.table import MixedTable, Schema
from craftc.table.apart import as_names, columns_apart
from craftc.table.dates import parts_among
from craftc.table.levels import LevelEncoding
from craftc.table.personal import is_personal

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
_EXPECTED = (
    "Coverage, precision and agreement are what the model expects of columns that are independent "
    "inside clusters; pass X for those of rows."
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
            Numbers have mean ± standard deviation of a sample (n - 1; in `summary` that of the rows, n) and
            the median with the quartiles, levels n (%) of the rows with a value, periodic columns a mean
            direction. The effect size is the largest standardised difference of two clusters, or Cramer's V.
            A level that `fit` has not seen counts as missing. Levels that may identify persons are not shown.

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


class Interpreted(Described):
    """Rules of the clusters, and methods of a model that may leave rows out of them."""

    outlier_price: float | None
    outlier_scores_: NDArray[np.float32]

    def rules(
        self,
        X: TableInput | None = None,
        *,
        max_conditions: int = 3,
        max_leaves: int | None = None,
        sample_weight: WeightInput = None,
    ) -> Rules:
        """One short rule for every cluster, and one small tree for all of them.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D), MixedTable or files, optional
            The table of `fit`, whose rows have their clusters of the fit, or other rows, which have their
            cheapest clusters; outliers belong to their clusters, too. None: rules and figures follow from the
            distributions of the model.
        max_conditions : int, default=3
            Most conditions of a rule, each a range of numbers or of ordered levels, or some levels.
        max_leaves : int, optional
            Most leaves of the tree; None: two for each cluster.
        sample_weight : array (n,), optional
            Weights of the rows of X.

        Returns
        -------
        Rules
            `frame` has the rules with coverage and precision, `tree` the lines of the tree, `agreement` the
            share of the rows for which it gives their cluster; `craftc.to_sql` takes the result.

        Raises
        ------
        TypeError, ValueError
            X is a Dask collection or cannot be read, `sample_weight` is passed without X, or a number is too
            small.

        Notes
        -----
        Conditions are those of the levels of the model: the values of a column of at most 64, otherwise about
        64 intervals. A rule has the largest F1 of coverage and precision that a beam search finds; missing
        cells satisfy none. Columns that may identify persons, periodic columns and parts of dates are left
        out.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> rules = CRAFT(random_state=0).fit(heart).rules(heart)
        >>> rules
        Rules(2 clusters; tree of 4 leaves, agreement 90 %)
        >>> rules.frame[["cluster", "rule"]]
           cluster                                               rule
        0        1                  max_hr >= 151 and oldpeak <= 2.45
        1        0  slope is not 1 and max_hr <= 174 and chest_pai...
        """
        fitted = self._fitted_state()
        most = int(check_number("max_conditions", max_conditions, least=1, whole=True))
        K = self.n_clusters_
        leaves = 2 * K
        if max_leaves is not None:
            leaves = int(check_number("max_leaves", max_leaves, least=1, whole=True))
        if is_collection(X):
            raise TypeError(
                "rules reads the rows of one machine, but X is a Dask collection; pass a part of its rows "
                "with X.compute(), or no X."
            )
        if X is None and sample_weight is not None:
            raise ValueError("sample_weight was passed without X; pass the rows, too, or leave it out.")
        own = self._own_names["clusters"]
        headings = headings_of([own.get(k) for k in range(K)])
        if X is None:
            columns, ordered = self._rule_columns()
            expected = self._expected(ordered, _usable(fitted.schema, columns))
            return self._searched(expected, expected.sizes, columns, headings, most, leaves, [_EXPECTED])
        table = self._read_columns(X)
        weight = check_weight(sample_weight, len(table))
        labels, notes = self._labels_of(table, weight)
        weight = np.ones(len(table)) if weight is None else weight
        return self._rules_of(table, labels, weight, headings, most, leaves, notes)

    def _rules_of(
        self,
        table: MixedTable,
        labels: Labels,
        weight: Floats,
        headings: list[str],
        most: int,
        leaves: int,
        notes: list[str],
        among: Collection[int] | None = None,
    ) -> Rules:
        """Rules of rows in the units of the table that have these clusters, whose headings are by label;
        `leaves`: of the tree; with 1 it has no condition. `among`: input columns that conditions may name.
        """
        encoding = self._fitted.encoding
        assert isinstance(encoding, LevelEncoding)  # as CRAFT has it
        columns, ordered = self._rule_columns()
        used = [d for d in _usable(self._fitted.schema, columns) if among is None or d in among]
        encoded, K = encoding.apply(table), len(headings)
        sizes = np.bincount(labels, weight, K).astype(np.float64)
        histograms = RowHistograms(encoded.codes, encoded.n_levels, labels, weight, K, ordered, used)
        return self._searched(histograms, sizes, columns, headings, most, leaves, notes)

    def _rule_columns(self) -> tuple[list[RuleColumn], list[bool]]:
        """The columns, and whether their levels have an order."""
        fitted, view = self._fitted, self._input_clusters()
        assert isinstance(fitted.encoding, LevelEncoding)
        numbers = dict(zip(fitted.schema.numeric_index.tolist(), fitted.encoding.numbers, strict=True))
        columns = [
            RuleColumn(clean(name), of, numbers.get(d))
            for d, (name, of) in enumerate(zip(view.features, view.statistics, strict=True))
        ]
        return columns, [d in numbers or d in fitted.schema.ordered for d in range(len(columns))]

    def _searched(
        self,
        histograms: Histograms,
        sizes: Floats,
        columns: list[RuleColumn],
        headings: list[str],
        most: int,
        leaves: int,
        notes: list[str],
    ) -> Rules:
        return Rules(
            columns,
            [best_rule(histograms, k, float(size), most) for k, size in enumerate(sizes)],
            small_tree(histograms, sizes, leaves),
            sizes,
            order_by_size(sizes).tolist(),
            headings,
            notes,
            self._fitted.schema,
            self._frame_library,
        )

    def _expected(self, ordered: list[bool], used: list[int]) -> ModelHistograms:
        """Histograms that the model expects."""
        moments = self._fitted.clusters.moments
        sizes: Floats = moments.sizes.astype(np.float64)
        starts = [*moments.grid.level_start.tolist(), moments.counts.shape[1]]
        shares = []
        for d in range(len(ordered)):
            counts = moments.counts[:, starts[d] : starts[d + 1]]  # those of missing cells are the last ones
            shares.append(np.asarray(counts / np.maximum(sizes, 1e-300)[:, None]))
        return ModelHistograms(np.asarray(self._fitted.sizes, np.float64), shares, ordered, used)

    # ---- rows that fit no cluster ----

    def _marked(self, labels: Labels, table: MixedTable) -> Labels:
        if self.outlier_price is None:
            return labels
        clusters = self._fitted_clusters()
        return marked(labels, outlier_scores_of(clusters, table), float(self.outlier_price), clusters)

    def _set_rows(self, statistics: RowStatistics) -> None:
        super()._set_rows(statistics)
        self.__dict__.pop("outlier_scores_", None)
        if len(statistics.outlier_scores):  # rows of a collection have theirs from `outlier_scores`
            self.outlier_scores_ = statistics.outlier_scores

    def _mark_outliers(self) -> None:
        """Mark the outliers among the labels of the fit, whose scores are known."""
        if self.outlier_price is not None:
            self._clusters_of_rows, price = self.labels_, float(self.outlier_price)
            self.labels_ = marked(self.labels_, self.outlier_scores_, price, self._fitted_clusters())
            if (self.labels_ == OUTLIER).all():
                warn_user(self._all_marked(price))

    def _all_marked(self, price: float) -> str:
        n, most = len(self.outlier_scores_), max(-float(self.outlier_scores_.min()), 0.0)
        return (
            f"All {plural(n, 'row')} have the label {OUTLIER}: no row saves more than {most:.3g} nats in a "
            f"cluster, and outlier_price={price:g} asks for more; the sizes and distributions of the "
            "clusters contain them."
        )

    def _notes(self) -> list[str]:
        notes, labels = super()._notes(), getattr(self, "labels_", None)
        if self.outlier_price is None or not isinstance(labels, np.ndarray):
            return notes
        n, price = int(np.count_nonzero(labels == OUTLIER)), float(self.outlier_price)
        if is_whole_table(self._fitted_clusters()):
            alone = "The only cluster describes every row as the table does"
            return [*notes, f"{alone}: outlier_price={price:g} leaves out none."]
        if self._clusters_of_rows is None:  # their scores are not known
            return [
                *notes,
                f"The labels of the fit mark no outliers: predict(X) does, by outlier_price={price:g}.",
            ]
        if n == len(labels):
            return [*notes, self._all_marked(price)]
        share = percent(n / max(len(labels), 1))
        return [
            *notes,
            f"{n} of {plural(len(labels), 'row')} ({share}) fit no cluster and have the label {OUTLIER}; the "
            "sizes and distributions of the clusters contain them.",
        ]

    @rowwise("outlier_score", "float32")
    def outlier_scores(self, X: TableInput) -> NDArray[np.float32]:
        """What every row costs in its cheapest cluster, less what it costs without clusters, in nats.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,) of float32
            Higher is more unusual. Above 0 the table's own distributions of the columns describe the row
            better than any cluster. `outlier_price=P` labels the rows above -P by -1, unless the whole table
            is one cluster, in which every row has 0.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart)
        >>> bool((model.outlier_scores(heart) == model.outlier_scores_).all())
        True
        """
        return outlier_scores_of(self._fitted_clusters(), self._read_new(X))

    def surprisal(self, X: TableInput) -> OutputFrame:
        """How odd every cell is in the cluster of its row, in nats.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            The columns of the model and the rows of X: minus the log probability of the cell in the cheapest
            cluster of the row, less the mean of this in the cluster. 0: as usual; 3: a cell e^3 = 20 times as
            rare as usual. Missing cells, and levels that `fit` has not seen, are NaN. A column in a
            covariance is described given the row's other cells there. Weights of columns do not count. A
            polars frame for a polars frame, otherwise pandas, with the index of X.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart)
        >>> odd = model.surprisal(heart.iloc[model.outliers(1)])
        >>> odd.iloc[0].nlargest(3).index.tolist()
        ['slope', 'chest_pain', 'fbs']
        """
        columns, library = self._read_columns(X), frame_library(X)
        fitted = self._fitted_state()
        table = fitted.encoding.apply(columns)
        found = surprisals(fitted.clusters, table, fitted.encoding.source, fitted.schema.n_columns)
        index = getattr(X, "index", None) if library == "pandas" else None
        return output_frame(dict(zip(fitted.schema.columns, found.T, strict=True)), library, {}, index)


def _usable(schema: Schema, columns: list[RuleColumn]) -> list[int]:
    """Columns that a condition may name."""
    parts = parts_among(list(schema.columns), [schema.columns[j] for j in schema.dates])
    used = []
    for d, column in enumerate(columns):
        of = column.statistics
        personal = is_personal(column.name, of.texts if isinstance(of, CategoricalColumn) else ())
        periodic = column.numbers is not None and column.numbers.period > 0
        if not personal and not periodic and schema.columns[d] not in parts:
            used.append(d)
    return used
