"""Links between columns against clusters: the reference, the ratio and its limits."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from craftc import CRAFT, MixedTable, load_model, save_model
from craftc.craft import dependence, diagnosis, links
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.dependence import LEAST_PART, PARTS, dependence_inside
from craftc.craft.fitted import ColumnLinks
from craftc.craft.links import column_links
from craftc.craft.parameters import ModelSpec
from craftc.craft.rows.local import LocalRows
from craftc.craft.search import FitConfig
from craftc.craft.search.starts import mixture
from craftc.datasets import make_mixed
from craftc.table.bins import tally
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments, integer_grid
from tests.common import fixed_price, random_table
from tests.reference import dependence as reference


def dependent(seed, n=150, p=4, q=4, missing=0.1):
    """Columns that share a factor, with missing cells and a level that never occurs."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 1))
    numeric = shared * rng.normal(size=p) + rng.normal(size=(n, p)) + 5.0
    latent = shared * rng.normal(size=q) + rng.normal(size=(n, q))
    codes = np.digitize(latent, [-0.8, 0.3, 1.2])
    numeric[rng.random(numeric.shape) < missing] = np.nan
    levels = np.where(rng.random(codes.shape) < missing, None, np.array(["a", "b", "c", "d"], object)[codes])
    frame = pd.DataFrame(numeric, columns=[f"x{j}" for j in range(p)])
    for j in range(q):
        frame[f"c{j}"] = pd.Categorical(levels[:, j], categories=["a", "b", "c", "d", "never"])
    return MixedTable.from_data(frame)


def config_of(table, weight=None, factor=1.0, seed=0):
    """The configuration of a fit, and the levels of its columns."""
    counts = np.empty(0, np.int64) if weight is None else np.asarray(weight, np.int64)
    tallies = [tally(cells, None if weight is None else counts) for cells in table.numeric.T]
    encoding = LevelEncoding.of_tallies(table.schema, tallies)
    table = encoding.apply(table)
    whole = Moments.of_partition(
        integer_grid(table, counts), 1.0, table, counts, np.zeros(len(table), np.int32), 1
    )
    spec = ModelSpec(price=None, selection="priced", price_factor=factor, pooled=True)
    background = Background(whole, encoding)
    return FitConfig(LocalRows(table, counts), counts, background, spec, 100, seed, 1), encoding


def of_table(table, weight=None, factor=1.0):
    return column_links(*config_of(table, weight, factor), np.zeros(table.schema.n_columns))


def by_reference(table, h, weight=None, **options):
    numbers = reference.normal_scores(table.numeric, weight)
    codes = table.codes.astype(int)
    return reference.links(numbers, codes, list(table.n_levels), h, weight=weight, **options)


def check(ours, saving, forest):
    assert ours.saving == pytest.approx(saving, rel=1e-9, abs=1e-9)
    assert {(a, b): pytest.approx(nats, rel=1e-9) for a, b, nats in ours.pairs} == forest
    assert [nats for *_, nats in ours.pairs] == sorted((nats for *_, nats in ours.pairs), reverse=True)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("p", "q"), [(4, 4), (6, 0), (0, 5), (1, 3), (3, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_the_reference_agrees(seed, p, q, missing):
    table = dependent(seed, p=p, q=q, missing=missing)
    check(of_table(table), *by_reference(table, 0.5 * math.log(150)))


def test_the_reference_agrees_with_weights_and_a_price():
    table = dependent(7, p=3, q=4)
    weight = np.random.default_rng(0).integers(0, 2, 150) * 2
    weight[0] = 2
    h = 2.5 * 0.5 * math.log(weight.sum())
    check(of_table(table, weight, 2.5), *by_reference(table, h, weight))


@pytest.mark.parametrize("n_levels", [(3, 7), (3, 8), (4, 40), (12, 60)])
def test_links_of_many_levels(n_levels):
    """A coarse category explains a fine one, and independent ones of as many levels do not."""
    rng = np.random.default_rng(0)
    few, many = n_levels
    fine = rng.integers(0, many, 400)
    names = {T: np.array([f"{T}: {t}" for t in range(T)], object) for T in n_levels}
    table = MixedTable.from_data(
        {
            "fine": names[many][fine],
            "coarse": names[few][fine % few],
            "other": names[few][rng.permutation(fine) % few],
        }
    )
    found = of_table(table)
    check(found, *by_reference(table, 0.5 * math.log(400)))
    assert [link[:2] for link in found.pairs] == [(0, 1)]


def test_weights_equal_repeated_rows():
    table = dependent(5)
    weight = np.random.default_rng(0).integers(0, 4, 150)
    repeated = of_table(table.take(np.repeat(np.arange(150), weight)))
    assert of_table(table, weight) == repeated
    heavy = of_table(table, weight * 2**20, 2.0**-20)  # 2^28 in all: rounded to 2^24
    assert [link[:2] for link in heavy.pairs] == [
        link[:2] for link in of_table(table, weight * 2**10, 2.0**-10).pairs
    ]


@pytest.mark.parametrize("factor", [0.2, 1.0, 3.0])
def test_the_reference_agrees_on_a_sample(monkeypatch, factor):
    monkeypatch.setattr(links, "SAMPLE_ROWS", 400)
    table = dependent(3, n=2000, missing=0.0)
    config, encoding = config_of(table, factor=factor)
    drawn = []
    spread = links.spread
    monkeypatch.setattr(links, "spread", lambda *key: drawn.append(spread(*key)) or drawn[0])
    ours = column_links(config, encoding, np.zeros(8))
    some = table.take(drawn[0])
    # the sample's numbers in the units of the whole table
    z = reference.scores(reference.normal_scores(table.numeric), np.ones(2000))[drawn[0]]
    monkeypatch.setattr(reference, "scores", lambda *_: z)
    check(ours, *by_reference(some, factor * 0.5 * math.log(2000), of_weight=2000.0))


def test_independent_columns_have_no_links_even_in_a_sample():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=60_000) for j in range(4)})
    for j in range(4):
        frame[f"c{j}"] = pd.Categorical(rng.integers(0, 6, 60_000))
    assert of_table(MixedTable.from_data(frame)) == ColumnLinks(0.0, [])


def test_groups_have_a_ratio_below_one_and_one_cloud_above():
    made = make_mixed(800, 4, 6, 6, 2, random_state=0)
    groups = CRAFT(categorical=made.categorical, random_state=0).fit(made.data)
    assert groups.n_clusters_ == 4
    assert 0.0 < groups.dependence_ratio_ < 1.0
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(1000, 1)) + 0.5 * rng.normal(size=(1000, 6))
    sliced = CRAFT(covariance="diagonal", random_state=0).fit(cloud)
    assert sliced.n_clusters_ > 1
    assert sliced.dependence_ratio_ > 1.0
    saved = sliced.merge_path_[-1].objective - min(step.objective for step in sliced.merge_path_)
    links = sliced._fitted.links
    assert sliced.dependence_ratio_ == max(links.saving, links.factor.saving) / saved
    # the other columns are those of normal numbers: the factor and their covariance save the same
    assert links.factor.saving == pytest.approx(links.saving, rel=0.01)
    whole = CRAFT(random_state=0).fit(cloud)
    assert whole.n_clusters_ == 1  # its covariance is a link of its columns, which clusters do not add to
    assert whole.dependence_ratio_ == math.inf


def test_links_are_named_by_input_columns_and_kept_in_a_file(tmp_path):
    rng = np.random.default_rng(1)
    paid = np.where(rng.random(600) < 0.4, 0.0, np.exp(rng.normal(size=600)))
    frame = pd.DataFrame(
        {"other": rng.normal(size=600), "paid": paid, "again": paid * np.exp(0.5 * rng.normal(size=600))}
    )
    frame["kind"] = pd.Categorical(np.where((paid > 0) != (rng.random(600) < 0.05), "some", "none"))
    model = CRAFT(random_state=0).fit(frame)
    assert [set(link[:2]) for link in model.column_links_[:1]] == [{"paid", "again"}]
    assert all(a != b for a, b, _ in model.column_links_)
    attrs = model.summary().attrs
    assert attrs["column_links"] == model.column_links_
    assert attrs["dependence_ratio"] == model.dependence_ratio_
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.column_links_ == model.column_links_
    assert again.dependence_ratio_ == model.dependence_ratio_


def test_sums_have_the_same_bits_with_and_without_blas(monkeypatch):
    table, weight = dependent(4), np.arange(150) % 4
    for given in (None, weight):
        without = of_table(table, given)
        with monkeypatch.context() as patch:
            patch.setattr(dependence, "_FEW_PRODUCTS", 0)
            assert of_table(table, given) == without


def test_where_clusters_save_nothing():
    rng = np.random.default_rng(0)
    noise = CRAFT(random_state=0).fit(rng.normal(size=(300, 6)))
    assert (noise.n_clusters_, noise.column_links_) == (1, [])
    assert math.isnan(noise.dependence_ratio_)
    pair = rng.normal(size=(300, 6))
    pair[:, 1] = 0.8 * pair[:, 0] + 0.6 * pair[:, 1]
    linked = CRAFT(1, random_state=0).fit(pair)
    assert linked.dependence_ratio_ == math.inf
    assert [link[:2] for link in linked.column_links_] == [("x0", "x1")]
    priced = fixed_price(cluster_price=5.0, random_state=0).fit(pair)
    assert (priced.column_links_, math.isnan(priced.dependence_ratio_)) == ([], True)


def inside_of(table, probabilities, weight=None):
    """What `dependence_inside` says of rows with these probabilities."""
    config, encoding = config_of(table, weight)
    config = replace(config, encoding=encoding)
    return dependence_inside(config, probabilities, np.zeros(table.schema.n_columns))


def inside(table, labels, weight=None):
    """What `dependence_inside` says of these clusters."""
    return inside_of(table, np.eye(labels.max() + 1)[labels], weight)


def test_dependence_inside_clusters_is_pearsons():
    """Half of chi-squared, times (n - 1) / n, less its degrees of freedom, over pairs of columns."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 900).astype(np.int32)
    shared = rng.integers(0, 2, 900)
    columns = [np.array(list("abc"))[(rng.integers(0, 2, 900) + shared * labels)] for _ in range(3)]
    nats, sure = inside(MixedTable.from_data({f"c{j}": own for j, own in enumerate(columns)}), labels)
    for k in range(2):
        expected = 0.0
        rows = labels == k
        for one, other in itertools.combinations(columns, 2):
            counts = pd.crosstab(one[rows], other[rows]).to_numpy().astype(float)
            by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / rows.sum()
            squared = ((counts - by_chance) ** 2 / by_chance).sum()
            free = (counts.shape[0] - 1) * (counts.shape[1] - 1)
            expected += 0.5 * (squared * (rows.sum() - 1) / rows.sum() - free)
        assert nats[k] == pytest.approx(expected)
    assert sure.tolist() == [False, True]


def test_dependence_inside_clusters_of_numbers_is_their_correlation():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])  # so few that a level is a value
    encoding = config_of(MixedTable.from_data(x))[1]
    scores = np.column_stack(
        [own.normal_scores[own.apply(c)] for own, c in zip(encoding.numbers, x.T, strict=True)]
    )
    r = np.corrcoef(scores.T)[0, 1]
    nats, sure = inside(MixedTable.from_data(x), np.zeros(50, np.int32))
    assert nats[0] == pytest.approx(0.5 * (49 * r * r - 1.0), rel=1e-2)
    assert sure[0]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_independent_columns_are_independent_inside_clusters(missing):
    rng = np.random.default_rng(2)
    n = 20_000
    columns = {f"x{j}": rng.exponential(size=n) for j in range(4)}
    columns |= {f"c{j}": np.array(list("abcdefgh"))[rng.geometric(0.4, n).clip(1, 8) - 1] for j in range(4)}
    table = MixedTable.from_data(pd.DataFrame(columns).mask(rng.random((n, 8)) < missing))
    nats, sure = inside(table, rng.integers(0, 40, n).astype(np.int32))
    assert sure.sum() <= 1
    assert abs(nats.mean()) < 3.0


def two_overlapping_groups(n):
    """Independent columns of two groups in a ratio of 2 to 1, and the probability of the second one."""
    rng = np.random.default_rng(4)
    second = rng.random(n) < 1 / 3
    shares = np.array([[0.5, 0.3, 0.2], [0.15, 0.3, 0.55]])
    codes = (rng.random((n, 6))[:, :, None] > shares.cumsum(axis=1)[second.astype(int)][:, None, :-1]).sum(
        axis=2
    )
    odds = 0.5 * np.prod(shares[1][codes] / shares[0][codes], axis=1)
    names = np.array(list("abc"))
    return MixedTable.from_data({f"c{j}": names[codes[:, j]] for j in range(6)}), odds / (1.0 + odds)


def test_columns_are_independent_inside_overlapping_groups_by_their_probabilities():
    table, second = two_overlapping_groups(20_000)
    nats, sure = inside_of(table, np.column_stack([1.0 - second, second]))
    assert not sure.any()
    nearest = np.eye(2)[(second > 0.5).astype(int)]
    cut, sure = inside_of(table, nearest)
    assert sure.all()
    assert (np.abs(nats) < 0.1 * cut).all()


def test_rows_that_count_in_part_are_worth_fewer():
    """Three copies of each row with a probability of a third are one row each."""
    table = dependent(7, n=240)
    thirds = np.full((720, 1), 1 / 3)
    once, _ = inside_of(table, np.ones((240, 1)))
    parts, _ = inside_of(table.take(np.repeat(np.arange(240), 3)), thirds)
    kept, _ = inside_of(table, np.full((240, 1), 0.25))
    np.testing.assert_allclose(kept, 0.25 * once, rtol=1e-9)  # of all rows alike: 240 that count less
    assert parts[0] > once[0]  # 720 rows of the same dependence, a third of each


def test_parts_of_weights_equal_parts_of_repeated_rows():
    table = dependent(7, n=120)
    rng = np.random.default_rng(3)
    weight, first = rng.integers(0, 4, 120), rng.random(120)
    repeated = np.repeat(np.arange(120), weight)
    both = np.column_stack([first, 1.0 - first])
    weighted = inside_of(table, both, weight)
    expanded = inside_of(table.take(repeated), both[repeated])
    np.testing.assert_allclose(weighted[0], expanded[0], rtol=1e-9)
    np.testing.assert_array_equal(weighted[1], expanded[1])


def test_a_mixture_after_steps_is_that_of_the_em_algorithm():
    """Shares of levels with the pseudo-count of CRAFT, and sizes of the groups, of parts of rows."""
    table, second = two_overlapping_groups(3000)
    config, encoding = config_of(table)
    config = replace(config, encoding=encoding)
    labels = (second > 0.5).astype(np.int32)
    mask = np.ones((2, table.schema.n_columns), np.uint8)
    clusters = Clusters(config.moments(labels, 2), config.background, config.spec, mask, keep=True)
    levels = np.concatenate([table.codes[:, [j]] == np.arange(3) for j in range(6)], axis=1)
    frequency, expected = levels.mean(axis=0), np.eye(2)[labels]
    for _ in range(4):  # from the parameters of the labels, then of three steps
        parts = np.where(expected >= LEAST_PART, np.rint(expected * PARTS) / PARTS, 0.0)
        sizes = parts.sum(axis=0)
        shares = (parts.T @ levels + frequency) / (sizes[:, None] + 1.0)
        logs = levels @ np.log(shares).T + np.log(sizes)
        expected = np.exp(logs - logs.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
    found = mixture(config, clusters, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_dependence_inside_clusters_of_weights_equals_repeated_rows():
    table = dependent(7, n=120)
    rng = np.random.default_rng(3)
    weight, labels = rng.integers(0, 4, 120), rng.integers(0, 2, 120).astype(np.int32)
    repeated = np.repeat(np.arange(120), weight)
    weighted = inside(table, labels, weight)
    expanded = inside(table.take(repeated), labels[repeated])
    np.testing.assert_allclose(weighted[0], expanded[0], rtol=1e-9)
    np.testing.assert_array_equal(weighted[1], expanded[1])


@pytest.mark.parametrize("shape", [(1, 3, 0), (2, 0, 2), (12, 1, 0), (30, 2, 2)])
@pytest.mark.parametrize("missing", [0.0, 0.9])
def test_small_tables(shape, missing):
    n, p, q = shape
    model = CRAFT(random_state=0).fit(random_table(n, n, p, q, missing=missing))
    assert not any(math.isnan(nats) for *_, nats in model.column_links_)


def test_same_bits_on_any_number_of_threads():
    table = dependent(0, n=20_000)
    one, more = (CRAFT(random_state=0, n_init=1, n_threads=t).fit(table) for t in (1, 3))
    assert one.column_links_ == more.column_links_
    assert one.dependence_ratio_ == more.dependence_ratio_


def test_a_wide_table_is_represented_by_the_columns_that_clusters_select():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3000))
    X[:60, 2000:2010] += 4.0
    X[:, 2] = X[:, 1] + 0.1 * X[:, 2]
    gains = np.zeros(3000)
    gains[2000:2010] = 5.0
    config, encoding = config_of(MixedTable.from_data(X))
    tracemalloc.start()
    links = column_links(config, encoding, gains)
    assert (
        tracemalloc.get_traced_memory()[1] < 8 * 3000**2
    )  # one square matrix of all columns would take as much
    tracemalloc.stop()
    pairs = {(a, b) for a, b, _ in links.pairs}
    assert (1, 2) in pairs
    assert len(pairs & {(a, b) for a in range(2000, 2010) for b in range(2000, 2010)}) == 9
    chosen = dependence._columns(np.full(3000, 3), np.ones(3000, bool), gains)
    assert len(chosen) == dependence.MOST_WIDTH // 3
    assert {column for pair in pairs for column in pair} <= set(chosen.tolist())


def test_columns_of_many_levels_are_left_out():
    width = np.array([3, 3, 4, 258, 257, 701, 601])
    usable = np.array([True, False, True, True, True, True, True])
    gains = np.array([0.0, 9.0, 1.0, 8.0, 5.0, 7.0, 2.0])
    assert dependence._columns(width, usable, gains).tolist() == [0, 2, 4]


def test_columns_of_many_levels_are_compared_in_little_memory():
    """Not by a table of levels times levels, of 30 000 x 30 000 cells."""
    rng = np.random.default_rng(0)
    codes = np.sort(rng.choice(30_000, 2000, replace=False))
    cells = pd.DataFrame(dict.fromkeys("ab", codes)).assign(c=rng.permutation(codes % 1000))
    table = MixedTable.from_data(cells, categorical=["a", "b", "c"])
    sample = MixedTable._trusted(
        table.numeric,
        cells.to_numpy(np.uint16),
        replace(table.schema, levels=(tuple(range(30_000)),) * 3),
        None,
    )
    tracemalloc.start()
    pairs = list(diagnosis.near_duplicates(sample))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pairs == [("a", "b")]
    assert peak < 1 << 22


@pytest.mark.slow_except(10)
@pytest.mark.parametrize("seed", range(60))
def test_near_duplicates_are_those_of_all_pairs(seed):
    """A few pairs of rows rule out columns, so that a thousand texts are compared in a second."""
    rng = np.random.default_rng(seed)
    n, n_levels = int(rng.integers(20, 600)), int(rng.choice([2, 3, 5, 20, 100]))
    columns = {}
    for k in range(6):
        whole = (rng.random(n) ** rng.choice([1, 4]) * n_levels).astype(int)
        rare = (rng.random(n) < rng.choice([0.02, 0.05, 0.3])).astype(int)
        columns[f"c{k}"] = whole if rng.random() < 0.7 else rare
        copy = rng.permutation(n_levels + 1)[columns[f"c{k}"]]
        noise = rng.random(n) < rng.choice([0.0, 0.001, 0.005, 0.01])
        copy[noise] = rng.integers(0, n_levels + 1, noise.sum())
        columns[f"d{k}"] = copy
    texts = {name: cells.astype(str).astype(object) for name, cells in columns.items()}
    table = MixedTable.from_data(texts, categorical=[*columns])

    def entropy(codes):
        share = np.unique(codes, return_counts=True, axis=0)[1] / n
        return -(share * np.log(share)).sum()

    names, codes = table.schema.categorical_names, table.codes
    alone = [entropy(codes[:, j]) for j in range(len(names))]
    expected = set()
    for i, j in itertools.combinations(range(len(names)), 2):
        least, most = sorted((alone[i], alone[j]))
        if least > 0.1 and least + most - entropy(codes[:, [i, j]]) > 0.98 * most:
            expected.add((names[i], names[j]))
    assert set(diagnosis.near_duplicates(table)) == expected


@pytest.mark.parametrize("n", [10, 60])
def test_many_numbers_are_compared_by_projections(n, monkeypatch):
    """Copies, opposite and nearly equal columns, empty ones and constants."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 300))
    X[:, 200:220], X[:, 220:240], X[:, 240:250] = X[:, :20], -3.0 * X[:, 20:40] + 1.0, X[:, :10]
    X[:, 250:280] = X[:, 40:70] + 0.02 * rng.normal(size=(n, 30)) * rng.random(30)
    X[:, 290:] = 0.0
    scaled = diagnosis._standardised(X)
    every = list(diagnosis._equal_numbers(scaled))
    monkeypatch.setattr(diagnosis, "_COLUMNS_AT_ONCE", 64)
    assert list(diagnosis._equal_numbers(scaled)) == every
    assert 60 < len(every) < 90
