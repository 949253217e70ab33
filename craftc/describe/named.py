"""Estimators whose clusters can have names of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.messages import quoted, shown
from craftc._common.own_names import OwnNames, check_distinct, checked_name
from craftc.describe.facts import Facts
from craftc.describe.view import ClusterView

_OPTION = "rename_clusters"


class NamedClusters:
    """Mixin for fitted estimators with clusters."""

    _own_names: OwnNames

    def _cluster_view(self) -> ClusterView:
        """The clusters by input columns, without names of one's own."""
        raise NotImplementedError

    def _input_clusters(self) -> ClusterView:
        """The clusters by input columns."""
        own = self._own_names
        return replace(self._cluster_view(), own=own["clusters"], labels=own["columns"])

    def _shown_clusters(self) -> ClusterView:
        """The clusters as descriptions show them: the answers of a column are one column."""
        return self._input_clusters().grouped

    def rename_clusters(self, names: Mapping[int | str, str | None]) -> Self:
        """Give clusters names of your own, which summary, report, plots, `craftc predict` and files use.

        Parameters
        ----------
        names : mapping
            From a label, as `labels_` and `predict` have it, or from a present name, to the new name. None
            takes a name away. Other clusters keep theirs.

        Returns
        -------
        The estimator itself. A new fit forgets the names; `save_model` keeps them.

        Raises
        ------
        TypeError, ValueError
            A cluster does not exist, a name is no text or is empty, or two clusters would have one name;
            nothing is changed.

        Examples
        --------
        >>> import craftc
        >>> from craftc.datasets import load_heart
        >>> model = craftc.CRAFT(random_state=0).fit(load_heart().data)
        >>> model.rename_clusters({0: "strained", 1: "fit"}).summary()["name"].unique().tolist()
        ['strained', 'fit']
        """
        check_is_fitted(self)
        if not isinstance(names, Mapping):
            raise TypeError(f"{_OPTION}: pass a mapping such as {{0: 'young'}}, got {shown(names)}.")
        view = self._shown_clusters()
        present = Facts(view).names() if view.has_names else []
        own = dict(view.own)
        for key, name in names.items():
            k = self._label(key, present, len(view.sizes))
            if name is None:
                own.pop(k, None)
            else:
                own[k] = checked_name(_OPTION, key, name)
        check_distinct(_OPTION, "clusters", own.items())
        self._own_names = OwnNames(clusters=dict(sorted(own.items())), columns=self._own_names["columns"])
        return self

    @staticmethod
    def _label(key: object, present: list[str], n_clusters: int) -> int:
        """The label of a cluster that is given by its label or its name."""
        if isinstance(key, str):
            if key in present:
                return present.index(key)
            known = f"; the names are {', '.join(map(quoted, present[:8]))}" if present else ""
            raise ValueError(f"{_OPTION}: no cluster has the name {quoted(key)}{known}.")
        if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < n_clusters:
            return int(key)
        raise ValueError(
            f"{_OPTION}: there is no cluster {shown(key)}; the labels are 0 to {n_clusters - 1}."
        )
