"""Rows of a cluster, and renumbering of cluster labels in place, in slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from craftc._common.typing import Labels

CHUNK = 8192  # rows of a slice
_FEW = 512  # rows that are searched first for the first row of every cluster


def chunks(n: int) -> Iterator[slice]:
    """Slices of at most CHUNK rows, which keep temporaries small."""
    for first in range(0, n, CHUNK):
        yield slice(first, min(first + CHUNK, n))


def renumber(labels: Labels, number: NDArray[np.int32]) -> None:
    """labels = number[labels], in place."""
    for rows in chunks(len(labels)):
        labels[rows] = number.take(labels[rows])


def numbering(n_clusters: int) -> NDArray[np.int32]:
    """Numbers of clusters that are to change, for `renumber`: 0..K-1, and -1 for rows without a cluster."""
    number = np.arange(n_clusters + 1, dtype=np.int32)
    number[n_clusters] = -1
    return number


def join(place: NDArray[np.int32], i: int, j: int) -> None:
    """Renumber in place after cluster j has joined cluster i < j: later clusters shift down."""
    place[place == j] = i
    place -= place > j


def without(array: NDArray[Any], j: int) -> NDArray[Any]:
    """A copy without row j; much faster than `numpy.delete`."""
    return np.concatenate((array[:j], array[j + 1 :]))


def compact(labels: Labels) -> Labels:
    """Renumber labels to 0..K-1 in place, without gaps and in the same order."""
    used = np.zeros(int(labels.max()) + 1, bool)
    for rows in chunks(len(labels)):
        used[labels[rows]] = True
    if np.count_nonzero(used) < len(used):
        renumber(labels, (np.cumsum(used) - 1).astype(np.int32))
    return labels


def first_appearance(labels: Labels, n_clusters: int) -> NDArray[np.intp]:
    """The clusters (K,) in the order of their first row."""
    return by_first_row([first_rows(labels, n_clusters)])


def first_rows(labels: Labels, n_clusters: int) -> dict[int, int]:
    """The first row of every cluster that occurs."""
    first: dict[int, int] = {}
    start, size = 0, _FEW
    while start < len(labels) and len(first) < n_clusters:
        stop = min(start + size, len(labels))
        backwards = zip(labels[start:stop][::-1].tolist(), range(stop - 1, start - 1, -1), strict=True)
        first = dict(backwards) | first  # of equal labels, the last one is kept
        start, size = stop, min(2 * size, CHUNK)
    return first


def by_first_row(found: Iterable[dict[int, int]]) -> NDArray[np.intp]:
    """The clusters (K,) in the order of their first row, from the first rows in successive parts."""
    first: dict[int, int] = {}
    for of_part in found:
        first = of_part | first
    return np.array(sorted(first, key=first.__getitem__), np.intp)


def number_by_appearance(labels: Labels) -> NDArray[np.intp]:
    """Renumber labels in place by first appearance; returns the old numbers in the new order."""
    order = first_appearance(labels, int(np.count_nonzero(np.bincount(labels))))
    number = np.zeros(int(order.max()) + 1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    renumber(labels, number)
    return order


def canonical(labels: Labels) -> Labels:
    """A copy of the labels, numbered by first appearance."""
    numbered = labels.copy()
    number_by_appearance(numbered)
    return numbered
