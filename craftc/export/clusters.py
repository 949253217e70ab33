"""How a CRAFT or a PaperCRAFT scores rows, from its cost tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from craftc._common.typing import Floats
from craftc._kernels import craft as craft_kernel
from craftc.craft.base import CraftBase
from craftc.craft.clusters import Clusters
from craftc.export.scoring import (
    Block,
    Intervals,
    LookUp,
    Polynomial,
    Scoring,
    Texts,
    Values,
    float64_bounds,
    title_of,
    values_of,
)
from craftc.table import Schema
from craftc.table.dates import parts_among
from craftc.table.kinds import truth_level, truth_words
from craftc.table.level_column import MISSING_LEVEL, Level
from craftc.table.levels import LevelEncoding
from craftc.table.numeric_encoding import EncodingRecipe, NumericEncoding

Term = LookUp | Polynomial

#: Texts that engines make of truth values.
_TRUTH = {
    True: ["true", "TRUE", "True", "t", "1", "1.0"],
    False: ["false", "FALSE", "False", "f", "0", "0.0"],
}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?")


def scoring(model: CraftBase, whole: bool) -> Scoring:
    """The scoring of a fitted model; `whole`: also terms that cost the same in all clusters."""
    if (price := getattr(model, "outlier_price", None)) is not None:
        raise ValueError(
            f"The model has outlier_price={price:g}, but an exported model puts every row into a cluster; "
            "fit without it, or export a copy with set_params(outlier_price=None), which changes no cluster."
        )
    fitted = model._fitted
    clusters, schema, encoding = fitted.clusters, fitted.schema, fitted.encoding
    tables, K, keep = clusters.tables(), model.n_clusters_, whole or model.unknown == "error"
    common = clusters.background.level_cost.copy()
    if (shared := clusters._shared_tables()) is not None:
        common += shared.level[:, 0]
    blocks: list[Block] = []
    if isinstance(encoding, LevelEncoding):
        terms, blocks = _of_levels(clusters, encoding, tables, common, keep)
    else:
        terms = list(_of_numbers(clusters, encoding, tables, common, keep))
    return Scoring(
        title_of(model, K),
        tuple(map(str, schema.columns)),
        expected_types(schema),
        terms,
        tables.base[:K].copy(),
        model.cluster_sizes_,
        model.cluster_names_,
        fitted.order,
        proper=hasattr(model, "predict_proba"),
        blocks=blocks,
        refused=refused_columns(schema),
        unseen=unseen_terms(terms, model.unknown),
        parts=_parts(schema),
        trims=bool(schema.reading),
    )


def _parts(schema: Schema) -> dict[int, tuple[int, str]]:
    """Columns that are parts of dates of the model, with the date and the part."""
    dates, names = [schema.columns[j] for j in schema.dates], list(schema.columns)
    parts = parts_among(names, dates)
    return {
        names.index(name): (names.index(date), part) for name, (date, part) in parts.items() if name in names
    }


def refused_columns(schema: Schema) -> tuple[int, ...]:
    """Columns whose missing cells `predict` refuses; blank cells of a box to tick are "no"."""
    if schema.missing != "error":
        return ()
    return tuple(j for j, name in enumerate(schema.columns) if not _blank_level(schema, name))


def unseen_terms(terms: list[Term], unknown: str) -> tuple[int, ...]:
    """Positions of the terms whose unseen levels `predict` refuses."""
    if unknown != "error":
        return ()
    return tuple(
        i for i, each in enumerate(terms) if isinstance(each, LookUp) and isinstance(each.reader, Texts)
    )


def expected_types(schema: Schema) -> tuple[str, ...]:
    """What the cells of every column are."""
    out = ["number"] * schema.n_columns
    for j in schema.dates:
        out[j] = "date"
    for j, levels in zip(schema.categorical_index.tolist(), schema.levels, strict=True):
        out[j] = type_of_levels(levels)
    return tuple(out)


def type_of_levels(levels: tuple[Level, ...]) -> str:
    """What the cells of a column with these levels are; numbers among texts are read as text."""
    kinds = {type(level) for level in levels if level != MISSING_LEVEL}
    if kinds == {bool}:
        return "true or false"
    return "text" if str in kinds or bool in kinds or not kinds else "number"


def texts_of(schema: Schema, d: int) -> Texts:
    """The levels of a categorical column."""
    levels = schema.levels[d]
    missing = (
        len(levels) - 1 if schema.missing == "category" and levels and levels[-1] == MISSING_LEVEL else None
    )
    if not schema.reading or type_of_levels(levels) != "text":
        return Texts(levels, missing)
    place = {str(level): t for t, level in enumerate(levels)}
    blank = _blank_level(schema, schema.columns[int(schema.categorical_index[d])])
    words = [word for word in place if word != MISSING_LEVEL]
    spellings = ((word, text) for word in words for text in _spellings(word, words, blank))
    others = {text: place[word] for word, text in spellings if text not in place}
    return Texts(levels, place.get(blank, missing), others)


def _blank_level(schema: Schema, name: str) -> str:
    """The level of blank cells next to a single value, as `read_table` has read them; empty without one."""
    recipe = schema.reading.get("columns", {}).get(name, {})
    return str(recipe.get("blank", "")) if isinstance(recipe, Mapping) else ""


def _spellings(word: str, words: Sequence[str], blank: str) -> list[str]:
    """Texts that engines make of a number or a truth value which `read_table` has written as this level;
    `blank`: the level of blank cells, which is no number where the others are.
    """
    others = [each for each in words if each != blank]
    # of versions, "1.1" and "1.10", the digits count
    numbers = all(map(_NUMBER.fullmatch, [*others, word])) and len(set(map(float, others))) == len(others)
    point = "" if "." in word else "."
    of_number = [f"{word}{point}0", f"{word}{point}00"] if numbers else []
    own = truth_words(words)
    levels = {value: own.get(value) if own else truth_level(value, words) for value in _TRUTH}
    return of_number + [text for value, level in levels.items() if level == word for text in _TRUTH[value]]


def _of_levels(
    clusters: Clusters,
    encoding: LevelEncoding,
    tables: craft_kernel.CostTables,
    common: Floats,
    keep: bool,
) -> tuple[list[Term], list[Block]]:
    """The terms and blocks of a CRAFT, whose columns are all levels; `keep`: also terms that cost nothing."""
    schema, K, starts = encoding.input_schema, clusters.moments.n_clusters, tables.grid.level_start
    held = clusters.covariances
    scores: dict[int, Floats] = {}  # cells of blocks, by input column
    inside: dict[int, float] = {}
    place: dict[int, int] = {}  # of an input column among the terms
    columns = [] if held is None else encoding.scored_levels[held.cross.columns].tolist()
    if held is not None:
        for at, (column, j) in enumerate(zip(held.cross.columns.tolist(), columns, strict=True)):
            own = encoding.numbers[encoding.scored_columns[column]].axis
            z = (own.scores.astype(np.float64) - held.centre[at]) * held.scale[at]
            scores[j] = np.clip(z, -craft_kernel.FAR, craft_kernel.FAR)
            inside[j] = float(held.inside[at])
    terms: list[Term] = []
    readers = _readers(encoding)
    for j in range(schema.n_columns):
        reader, n_levels = readers[j]
        costs, of_all = (
            each[starts[j] : starts[j] + n_levels] for each in (tables.level[:, :K].copy(), common)
        )
        if held is not None and j in scores:
            costs -= 0.5 * np.outer(scores[j] ** 2, held.block[:, columns.index(j)])
        elif not costs.any() and not keep:
            continue
        place[j] = len(terms)
        terms.append(LookUp(j, reader, costs, scores.get(j), inside.get(j), of_all))
    blocks = []
    for k in range(K if held is not None else 0):
        assert held is not None
        some = np.flatnonzero(held.block[k])
        if not len(some):
            continue
        matrix = held.matrix[k][np.ix_(some, some)]
        blocks.append(
            Block(
                k,
                np.array([place[columns[at]] for at in some.tolist()]),
                held.mean[k, some],
                matrix,
                0.5,
                0.5 * float(np.linalg.slogdet(matrix)[1]),
            )
        )
    return terms, blocks


def _readers(encoding: LevelEncoding) -> dict[int, tuple[Texts | Intervals, int]]:
    """How the cells of every input column become levels, and the number of levels."""
    schema = encoding.input_schema
    readers: dict[int, tuple[Texts | Intervals, int]] = {}
    for j, own in zip(schema.numeric_index.tolist(), encoding.numbers, strict=True):
        bounds = own.bounds if own.period else float64_bounds(own.bounds, schema.dtype)
        readers[j] = Intervals(bounds, own.period, len(own.values)), len(own.values)
    for d, j in enumerate(schema.categorical_index.tolist()):
        readers[j] = texts_of(schema, d), len(schema.levels[d])
    return readers


def _of_numbers(
    clusters: Clusters,
    encoding: NumericEncoding,
    tables: craft_kernel.CostTables,
    common: Floats,
    keep: bool,
) -> Iterator[Term]:
    """The terms of a PaperCRAFT."""
    given, schema, grid = encoding.input_schema, encoding.schema, tables.grid
    background, K = clusters.background, clusters.moments.n_clusters
    number = {j: d for d, j in enumerate(schema.numeric_index.tolist())}
    category = {j: d for d, j in enumerate(schema.categorical_index.tolist())}
    recipes = dict(zip(given.numeric_index.tolist(), encoding.recipes, strict=True))
    categories = {j: d for d, j in enumerate(given.categorical_index.tolist())}

    def level_costs(at: int) -> Floats:
        """(T, K + 1) costs in the clusters, and in all of them."""
        d = category[at]
        rows = slice(grid.level_start[d], grid.level_start[d] + len(schema.levels[d]))
        return np.column_stack([tables.level[rows, :K], common[rows]])

    at = 0  # the first derived column of the input column
    for j in range(given.n_columns):
        if j in categories:
            yield from _kept(_look_up(j, texts_of(given, categories[j]), level_costs(at)), keep)
            at += 1
            continue
        recipe = recipes[j]
        spikes = len(recipe.spikes)
        rest = level_costs(at + spikes) if recipe.rest == "values" else None
        apart = _apart(j, recipe, given, [level_costs(at + i) for i in range(spikes)], rest, K)
        if apart is not None:
            yield from _kept(apart, keep)
        if recipe.rest != "values":
            d = number[at + spikes]
            square, linear, offset = (
                np.array(each[d, :K]) for each in (tables.square, tables.linear, tables.offset)
            )
            usable = clusters.spec.coherent and bool(background.usable[d])
            if keep or square.any() or linear.any() or offset.any():
                yield Polynomial(
                    j,
                    np.zeros(K),
                    square,
                    linear,
                    offset,
                    centre=float(tables.centre[d]),
                    scale=float(tables.scale[d]),
                    most=craft_kernel.FAR,
                    single=given.dtype == np.float32,
                    apart=values_of(recipe.spikes, given.dtype) if spikes else None,
                    knots=recipe.values if recipe.rest == "ranks" else None,
                    scores=recipe.scores if recipe.rest == "ranks" else None,
                    common=(0.5, float(background.log_deviation[d])) if usable else (0.0, 0.0),
                )
        at += spikes + 1


def _apart(
    j: int, recipe: EncodingRecipe, given: Schema, spikes: list[Floats], rest: Floats | None, K: int
) -> LookUp | None:
    """The look-up of the values of a column that are set apart: spikes, categories, and all others."""
    values = [*recipe.spikes, *(recipe.values.tolist() if rest is not None else ())]
    if not values:
        return None
    costs = np.zeros((len(values) + 1, K + 1))
    for i, own in enumerate(spikes):  # a row with an earlier spike is missing here
        costs[i] += own[1]
        costs[i + 1 :] += own[0]
    if rest is not None:
        costs[len(spikes) : -1] += rest
    return _look_up(j, values_of(values, given.dtype), costs)


def _look_up(j: int, reader: Texts | Values, costs: Floats) -> LookUp:
    return LookUp(j, reader, costs[:, :-1], common=costs[:, -1])


def _kept(term: LookUp, keep: bool) -> Iterator[Term]:
    if keep or term.costs.any():
        yield term
