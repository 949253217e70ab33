"""Tables, encodings and graphs that the replication of graph spectral features uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from craftc import GraphSpectralFeatures

Table = NDArray[np.float64]
Labels = NDArray[Any]


class Data(NamedTuple):
    X: pd.DataFrame
    classes: Labels
    numeric: list[str]
    categorical: list[str]

    def some(self, many: int) -> Data:
        """At most this many rows, drawn with seed 0."""
        if many >= len(self.X):
            return self
        rows = np.sort(np.random.default_rng(0).choice(len(self.X), many, replace=False))
        return self._replace(X=self.X.iloc[rows].reset_index(drop=True), classes=self.classes[rows])


def read(folder: Path, name: str) -> Data | None:
    """A table of the data folder, None where it is not there."""
    if not (folder / "schema.json").is_file() or not (folder / f"{name}.csv.gz").is_file():
        return None
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))[name]
    types = dict.fromkeys([*schema["categorical"], schema["target"]], str)
    frame = pd.read_csv(folder / schema["file"], dtype=types, keep_default_na=False, na_values=[""])
    classes = frame.pop(schema["target"]).to_numpy(str)
    return Data(frame, classes, schema["numeric"], schema["categorical"])


def encoded(X: pd.DataFrame, model: GraphSpectralFeatures) -> Table:
    """Rows as the model's columns name them, worked out from the table alone."""
    columns = []
    for s, (name, source) in enumerate(zip(model.encoded_names_, model.encoded_columns_, strict=True)):
        cells = X.iloc[:, source]
        if s < model.n_numeric_:
            centred = cells - cells.mean()
            columns.append((model.beta * centred / centred.abs().max()).fillna(0.0))
        else:
            on = (cells == name.removeprefix(f"{cells.name}=")).where(cells.notna())
            column = on.map({True: 1.0, False: -1.0}).astype(float)
            columns.append(column.fillna(column.mean()))
    return np.column_stack(columns).astype(np.float64)


def apart(model: GraphSpectralFeatures) -> NDArray[np.bool_]:
    """(p, p) where the graph may have an edge: between columns of different variables."""
    source = model.encoded_columns_
    return np.asarray(source[:, None] != source)


def eigenvectors(graph: Table, normalised: bool = True) -> Table:
    """(p, p) eigenvectors of the Laplacian D - graph, by ascending eigenvalue."""
    degree = np.abs(graph).sum(axis=1)
    root = 1.0 / np.sqrt(np.where(normalised & (degree > 0.0), degree, 1.0))
    return np.asarray(np.linalg.eigh(root[:, None] * (np.diag(degree) - graph) * root)[1])


def smoothest(graph: Table, l: int) -> Table:  # noqa: E741
    """(p, l) first eigenvectors of the normalised Laplacian."""
    return eigenvectors(graph)[:, :l]


def random_graph(allowed: NDArray[np.bool_], seed: int) -> Table:
    upper = np.triu(np.random.default_rng(seed).normal(size=allowed.shape), 1)
    return np.asarray((upper + upper.T) * allowed)


def correlations(x: Table, allowed: NDArray[np.bool_]) -> Table:
    return np.asarray(np.corrcoef(x, rowvar=False) * allowed)


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".") if abs(value) < 1 else f"{value:.3f}"


def mean_error(values: Any) -> str:
    """Mean and standard error."""
    return (
        f"{short(float(np.mean(values)))} +- {short(float(np.std(values, ddof=1) / np.sqrt(len(values))))}"
        if len(values) > 1
        else "-"
    )
