"""Rules of the clusters of a fitted CRAFT."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from craftc._common.typing import Floats, Labels, TableInput, WeightInput
from craftc._common.validation import check_number, check_weight
from craftc.craft.answers.profile import Described
from craftc.describe.columns import CategoricalColumn
from craftc.describe.rule_search import Histograms, ModelHistograms, RowHistograms, best_rule, small_tree
from craftc.describe.rules import RuleColumn, Rules
from craftc.describe.table_one import headings_of
from craftc.describe.view import order_by_size
from craftc.describe.words import clean
from craftc.distributed.collections import is_collection
from craftc.table import MixedTable, Schema
from craftc.table.dates import parts_among
from craftc.table.levels import LevelEncoding
from craftc.table.personal import is_personal

_EXPECTED = (
    "Coverage, precision and agreement are what the model expects of columns that are independent "
    "inside clusters; pass X for those of rows."
)


class Ruled(Described):
    """The method `rules`."""

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
