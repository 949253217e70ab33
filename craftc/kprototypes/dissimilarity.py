"""Dissimilarities, by name or as the functions of the package kmodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from craftc._common.messages import shown
from craftc._kernels import kprototypes as _kernel
from craftc.table import MixedTable

CATEGORICAL, NUMERIC = _kernel.KINDS, ("euclidean",)
_OF_KMODES = {
    "matching_dissim": "matching",
    "ng_dissim": "ng",
    "jaccard_dissim_binary": "jaccard",
    "jaccard_dissim_label": "jaccard-label",
    "euclidean_dissim": "euclidean",
}


@dataclass(frozen=True)
class Dissimilarity:
    """A name, or a function of kmodes that has one."""

    options: Sequence[str]

    def check(self, name: str, value: object) -> None:
        """Raise ValueError unless the parameter is one of the options."""
        if name_of(value) not in self.options:
            allowed = ", ".join(repr(option) for option in self.options)
            raise ValueError(
                f"{name} must be one of {allowed} or the function of kmodes of this name, got {shown(value)}."
            )


def name_of(value: object) -> str:
    """The name of a dissimilarity; that of a function of kmodes. An unknown value has the name ''."""
    if isinstance(value, str):
        return value
    module, function = str(getattr(value, "__module__", "")), getattr(value, "__name__", "")
    return _OF_KMODES.get(function, "") if module.partition(".")[0] == "kmodes" else ""


def check_binary(table: MixedTable) -> None:
    """Raise ValueError unless every categorical column has at most two levels."""
    for name, levels in zip(table.categorical_names, table.levels, strict=True):
        if len(levels) > 2:
            raise ValueError(
                f"cat_dissim='jaccard' needs columns of two levels, but column {name!r} has {len(levels)}; "
                "encode its levels as indicators, or pass cat_dissim='matching'."
            )
