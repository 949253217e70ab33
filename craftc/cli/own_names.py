"""Names of one's own on the command line: `--labels`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from craftc._common.own_names import OwnNames, check_distinct, checked_columns
from craftc.cli.arguments import ClusterOptions
from craftc.cli.columns import ColumnRoles
from craftc.craft import CRAFT
from craftc.reading.labels import parted
from craftc.table import Schema
from craftc.table.answers import answer_groups


def with_own_names(options: ClusterOptions, names: Mapping[str, str]) -> ClusterOptions:
    """The options, with names of columns of one's own, as the page shows them, replaced by those of the
    table.
    """
    column_of = {new.strip(): old for old, new in names.items()}

    def known(given: Sequence[str]) -> list[str]:
        return [column_of.get(name, name) for name in given]

    def of(name: str | None) -> str | None:
        return name if name is None else column_of.get(name, name)

    def weighed(text: str) -> str:
        name, equals, weight = text.rpartition("=")
        return f"{of(name)}{equals}{weight}"

    return replace(
        options,
        target=of(options.target),
        groups=of(options.groups),
        weight=of(options.weight),
        column_weights=[weighed(text) for text in options.column_weights],
        ignore=known(options.ignore),
        categorical=known(options.categorical),
        numeric=known(options.numeric),
        split=known(options.split),
    )


def own_column_names(names: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """The names of one's own of columns that have one, or whose answers belong to a column that has one."""
    own = dict(names)
    for group in answer_groups(schema):
        if group.name in names:
            for position, option in zip(group.positions, group.options, strict=True):
                own[schema.columns[position]] = f"{names[group.name]}: {option}"
    return own


def own_names(names: Mapping[str, str], roles: ColumnRoles) -> tuple[dict[str, str], dict[int, str]]:
    """The names of columns, checked, and of clusters by their numbers."""
    known = dict.fromkeys([*roles.numeric, *roles.categorical, *roles.excluded, *roles.answers])
    if roles.target is not None:
        known[str(roles.target.name)] = None
    columns, clusters = parted(names, known)
    return checked_columns(columns, known, "--labels"), clusters


def name_model(model: CRAFT, columns: dict[str, str], clusters: Mapping[int, str]) -> None:
    """Name the columns of a model and its clusters, which are numbered by size."""
    order = model._fitted.by_number.tolist()
    for number in clusters:
        if not 1 <= number <= len(order):
            raise ValueError(
                f"--labels: there is no cluster {number}; the clusters are numbered 1 to {len(order)}."
            )
    automatic = model.cluster_names_
    named = [(number, clusters.get(number, automatic[k]).strip()) for number, k in enumerate(order, 1)]
    check_distinct("--labels", "clusters", named)  # by the numbers of the page, which labels are not
    model._own_names = OwnNames(clusters={}, columns=model._own_names["columns"] | columns)
    model.rename_clusters({order[number - 1]: name for number, name in clusters.items()})
