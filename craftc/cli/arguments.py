"""The values of the options of each command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is read, and where results go: the options of both commands."""

    table: str  # file, folder, pattern, or "-"
    out: str | None
    quiet: bool
    in_batches: bool | None
    scheduler: str | None  # address
    threads: int | None
    header: str
    skip: int
    na: Sequence[str]

    def check(self) -> None:
        """Raise ValueError if options contradict each other."""
        if self.scheduler is not None and self.in_batches is False:
            raise ValueError("--scheduler reads files in batches; leave out --in-memory.")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(TableOptions):
    """The options of ``craftc cluster``."""

    clusters: int | Literal["suggested"] | None
    target: str | None
    ignore: Sequence[str]
    categorical: Sequence[str]
    numeric: Sequence[str]
    dates: str
    missing: str
    price_factor: float | Literal["auto"]
    seed: int
    stability: int | None  # refits
    details: bool
    all_features: bool
    as_json: bool
    scratch: str | None
    escape_formulas: bool
    keep: bool

    def check(self) -> None:
        """Raise ValueError if options contradict each other, or if the results have no folder."""
        if self.out is not None and not self.out.strip():
            raise ValueError("--out needs the name of a folder, got an empty one.")
        if self.out is not None and os.path.exists(self.out) and not os.path.isdir(self.out):
            raise ValueError(f"--out {self.out!r} is a file; pass the name of a folder.")
        super().check()


@dataclass(frozen=True, kw_only=True)
class PredictOptions(TableOptions):
    """The options of ``craftc predict``."""

    model: str  # file or folder
