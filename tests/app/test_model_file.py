"""A model file gives back the same bits, and nothing else is taken for one."""

from __future__ import annotations

import io
import json
import math
import pickle
import warnings
import zipfile
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import craftc
from craftc import CRAFT, PaperCRAFT, load_model, save_model
from craftc.datasets import load_heart
from tests.app.model_members import arrays_of, members_of, write_arrays, write_members
from tests.common import fixed_price, random_table

FITTED = [
    "objective_",
    "cluster_price_",
    "cluster_sizes_",
    "feature_mask_",
    "feature_gains_",
    "centers_",
    "variances_",
    "labels_",
    "margins_",
    "cluster_margins_",
    "objective_path_",
    "n_iter_",
    "converged_",
    "n_clusters_",
    "n_features_in_",
    "levels_",
]


@pytest.fixture
def heart():
    return load_heart().data


@pytest.fixture
def saved(heart, tmp_path):
    save_model(CRAFT(n_clusters=3, random_state=0).fit(heart), tmp_path / "m.craftc")
    return tmp_path / "m.craftc"


def round_trip(model, tmp_path):
    save_model(model, tmp_path / "model")
    return load_model(tmp_path / "model")


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_equal(model, again, X):
    for name in FITTED:
        value, other = getattr(model, name), getattr(again, name)
        if name == "levels_":
            assert value == other
        else:
            assert same_bits(value, other), name
    for a, b in zip(model.level_probabilities_, again.level_probabilities_, strict=True):
        assert same_bits(a, b)
    assert same_bits(model.predict(X), again.predict(X))
    assert same_bits(model.transform(X), again.transform(X))
    assert model.score(X) == again.score(X)
    for name in ("margins", "score_samples", "predict_proba"):
        if hasattr(model, name):
            assert same_bits(getattr(model, name)(X), getattr(again, name)(X))
    summary, other = model.summary(), again.summary()
    pd.testing.assert_frame_equal(summary, other, check_exact=True)
    assert summary.attrs == other.attrs
    pd.testing.assert_frame_equal(model.explain(X), again.explain(X), check_exact=True)
    assert len(model.merge_path_) == len(again.merge_path_)
    for step, restored in zip(model.merge_path_, again.merge_path_, strict=True):
        assert step[:2] == restored[:2]
        np.testing.assert_array_equal(step.labels, restored.labels)
    if model.merge_path_:
        for k in range(1, model.n_clusters_ + 1):
            assert same_bits(model.cut(k), again.cut(k))


def test_heart(heart, tmp_path):
    model = CRAFT(n_clusters=3, random_state=0).fit(heart)
    again = round_trip(model, tmp_path)
    check_equal(model, again, heart)
    assert again.get_params() == model.get_params()
    assert list(again.feature_names_in_) == list(model.feature_names_in_)
    assert again.schema_ == model.schema_
    assert (again.predict(heart[::-1]) == model.labels_[::-1]).all()


def mixed_kinds(n=240):
    """Every encoding of numbers: unchanged, by rank, in parts, as categories; and missing values."""
    rng = np.random.default_rng(4)
    group = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "plain": rng.normal(4.0 * group, 1.0),
            "skewed": np.exp(rng.normal(2.0 * group, 1.0)),
            "parts": np.where(rng.random(n) < 0.5, 0.0, np.exp(rng.normal(group, 1.0))),
            "few": rng.integers(0, 3, n) + group,
            "kind": np.array(list("abc"))[group],
            "constant": 1.5,
        }
    )
    frame.loc[::7, "parts"] = np.nan
    frame.loc[::11, "skewed"] = np.nan
    return frame


@pytest.mark.parametrize("covariance", ["auto", "diagonal", "full", "tied"])
@pytest.mark.parametrize("weighted", [False, True])
def test_levels(covariance, weighted, tmp_path):
    frame = mixed_kinds()
    weight = np.linspace(0.0, 2.0, len(frame)) if weighted else None
    model = CRAFT(covariance=covariance, random_state=0).fit(frame, sample_weight=weight)
    assert model.n_clusters_ > 1
    again = round_trip(model, tmp_path)
    assert again._fitted.encoding.to_dict() == model._fitted.encoding.to_dict()
    new = frame.assign(parts=frame["parts"] * 1.01, few=frame["few"] + 2)
    new.loc[1::2, "kind"] = "d"
    for X in (frame, new):
        check_equal(model, again, X)
    once_more = round_trip(again, tmp_path)
    check_equal(model, once_more, frame)
    assert (tmp_path / "model").stat().st_size < 60_000


@pytest.mark.slow
def test_many_clusters(tmp_path):
    """More than 256, so that labels no longer fit one byte."""
    X = np.repeat(np.eye(20, 6) * 9.0 + np.arange(20)[:, None], 15, axis=0)
    model = CRAFT(270, max_clusters=300, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X + np.random.default_rng(0).normal(size=X.shape))
    assert model.n_clusters_ > 256
    again = round_trip(model, tmp_path)
    for step, restored in zip(model.merge_path_, again.merge_path_, strict=True):
        assert step[:2] == restored[:2]
        np.testing.assert_array_equal(step.labels, restored.labels)


def test_one_cluster(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = CRAFT(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    check_equal(model, round_trip(model, tmp_path), X)


@pytest.mark.parametrize(
    ("selection", "sharing"),
    [("priced", 0), ("fixed", 0), ("free", 0), ("threshold", 0), ("fixed", 0.4), ("free", 0.9), ("fixed", 1)],
)
@pytest.mark.parametrize("shape", [(3, 3), (0, 4), (4, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_table(selection, sharing, shape, dtype, tmp_path):
    table = random_table(7, 60, *shape, dtype=dtype)
    model = fixed_price(3, selection=selection, cluster_price=2.0, init="single", random_state=1)
    model.set_params(feature_sharing=sharing).fit(table)
    check_equal(model, round_trip(model, tmp_path), table)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # as in the paper
@pytest.mark.parametrize("model", ["paper", "paper-fixed"])
def test_paper_models_and_weights(model, tmp_path):
    table = random_table(3, 50, 2, 2)
    weight = np.linspace(0.1, 2.0, 50)
    init = np.arange(50) % 3
    fitted = PaperCRAFT(3, cluster_price=0.0, model=model, random_state=0, init=init)
    fitted.fit(table, sample_weight=weight)
    again = round_trip(fitted, tmp_path)
    check_equal(fitted, again, table)
    assert again.init == "auto"


def test_parameters_that_are_arrays(heart, tmp_path):
    X = heart[["age", "chol", "max_hr"]].to_numpy()
    model = CRAFT(
        n_clusters=np.int64(2),
        categorical=np.array([False, False, False]),
        random_state=np.random.RandomState(3),
    ).fit(X)
    again = round_trip(model, tmp_path)
    check_equal(model, again, X)
    assert not hasattr(again, "feature_names_in_")
    assert (again.n_clusters, again.categorical, again.random_state) == (2, [False] * 3, None)


def test_levels_keep_their_kind(tmp_path):
    kinds = {"flag": [True, False, True], "code": [3, 10, 10], "日本": ["a\U0001f600"] * 2 + ["b"]}
    frame = pd.DataFrame({name: cells * 10 for name, cells in kinds.items()})
    model = CRAFT(n_clusters=2, categorical=["flag", "code", "日本"], random_state=0).fit(frame)
    assert round_trip(model, tmp_path).levels_ == [[False, True], [3, 10], ["a\U0001f600", "b"]]


def test_a_loaded_model_can_be_saved_and_fitted_again(heart, saved, tmp_path):
    model = load_model(saved)
    check_equal(model, round_trip(model, tmp_path), heart)
    assert (model.labels_ == model.fit(heart).labels_).all()


def test_only_a_fitted_estimator(tmp_path):
    with pytest.raises(NotFittedError):
        save_model(CRAFT(), tmp_path / "m")
    with pytest.raises(TypeError, match=r"fitted estimator of craftc \(.*BPMeans, .*\), got dict"):
        save_model({}, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_when_writing_fails(heart, saved, monkeypatch):
    before = saved.read_bytes()

    def fail(file, *_, **__):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(CRAFT(n_clusters=2, random_state=0).fit(heart), saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


class Bomb:
    """Runs when it is unpickled."""

    exploded = False

    def __reduce__(self):
        return setattr, (Bomb, "exploded", True)


def test_foreign_files(tmp_path):
    path = tmp_path / "m"
    other_zip, arrays, bomb = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(other_zip, "w") as archive:
        archive.writestr("mimetype", "x")
    np.savez(arrays, model=np.frombuffer(b'{"format": "other"}', np.uint8))
    np.savez(bomb, model=np.array([Bomb()], dtype=object))
    contents = [b"", b"a,b\n1,2\n", pickle.dumps(Bomb()), b"PK\x03\x04"]
    contents += [buffer.getvalue() for buffer in (other_zip, arrays, bomb)]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is not a craftc model|is damaged"):
            load_model(path)
    assert not Bomb.exploded


def rewrite(path, **changes):
    """Change the arrays of a model file (a function), or values of its JSON text, which an ellipsis drops."""
    arrays = arrays_of(path)
    head = json.loads(arrays["model"].tobytes())
    for name, value in changes.items():
        if name in arrays:
            arrays[name] = value(arrays[name])
            continue
        place = head if name in head else head["values"]
        assert name in place
        if value is ...:
            del place[name]
        else:
            place[name] = value
    write_arrays(path, arrays, head)


def test_cut_short_or_flipped(saved):
    content = saved.read_bytes()
    for length in range(5, len(content), 97):
        saved.write_bytes(content[:length])
        with pytest.raises(ValueError, match="is damaged or cut short"):
            load_model(saved)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    flipped = bytearray(content)
    flipped[largest.header_offset + largest.compress_size // 2] ^= 0xFF
    saved.write_bytes(bytes(flipped))
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(saved)


def test_newer_format(saved):
    rewrite(saved, format_version=2)
    with pytest.raises(ValueError, match=r"newer craftc \(format 2, this one reads up to 1\)"):
        load_model(saved)


@pytest.mark.parametrize("version", [0, -1])
def test_a_format_that_never_was(saved, version):
    rewrite(saved, format_version=version)
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(saved)


def test_an_estimator_of_a_newer_craftc(saved):
    rewrite(saved, estimator="Quantum")
    with pytest.raises(
        ValueError, match=r"holds a fitted 'Quantum', which this craftc does not know; update craftc\."
    ):
        load_model(saved)


NO_FACTOR = {"saving": 1.0, "columns": [0, 1], "separate": True}
NO_PAIRS = {"pairs": [], "alike": [], "implied": []}
NO_LINKS = {**NO_PAIRS, "saving": 1.0, "factor": NO_FACTOR, "besides": 0.0}


@pytest.mark.slow_except(10)
@pytest.mark.parametrize(
    "changes",
    [
        {"values": {}},
        {"_fitted.schema": {}},
        {"_fitted.schema": ...},
        {"_fitted.spec.selection": ...},
        {"parameters": {"n_klusters": 3}},
        {"_fitted.sums.unit": 0},
        {"_fitted.sums.unit": 0.0},
        {"_fitted.sums.unit": None},
        {"_fitted.sums.groups": lambda a: a[:, 1:]},
        {"_fitted.sums.groups": lambda a: a[:0]},
        {"_fitted.sums.groups": lambda a: a.astype(float)},
        {"_fitted.sums.groups": lambda a: a * 0},
        {"_fitted.sums.groups": lambda a: -a},
        {"labels_": lambda a: a + 7},
        {"labels_": lambda a: a[:, None]},
        {"labels_?": False},
        {"margins_": lambda a: a[1:]},
        {"margins_": lambda a: a.astype(np.float64)},
        {"cluster_margins_": lambda a: a[1:]},
        {"_fitted.original?": False},
        {"_fitted.original.groups": lambda a: a[1:]},
        {"_fitted.original.groups": lambda a: a[::-1]},
        {"_fitted.original.groups": lambda a: a[:, 1:]},
        {"_fitted.original.centre": lambda a: a[1:]},
        {"_fitted.original.scale": lambda a: -a},
        {"_fitted.mask?": False},
        {"_fitted.mask": lambda a: a[1:]},
        {"_fitted.mask": lambda a: a[:, 1:]},
        {"_fitted.mask": lambda a: a + 4},
        {"_fitted.mask": lambda a: a | 2},
        {"_fitted.path.changes": 0},
        {"_fitted.path.changes": 1.0},
        {"_fitted.path.changes": -1},
        {"_fitted.path.changes.place": lambda a: a[1:]},
        {"_fitted.path.changes.place": lambda a: a + 1},
        {"_fitted.path.changes.place": lambda a: a - 1},
        {"_fitted.path.changes.place": lambda a: a.astype(float)},
        {"_fitted.path.changes.place.lengths": lambda a: a[::-1]},
        {"_fitted.path.changes.place.lengths": lambda a: a * 2**62},
        {"_fitted.path.changes.place.lengths": lambda a: -a},
        {"_fitted.path.changes.heirs": lambda a: a + 1},
        {"_fitted.path.n_clusters": lambda a: a[::-1]},
        {"_fitted.path.n_clusters": lambda a: a + 1},
        {"_fitted.path.n_clusters": lambda a: a[:0]},
        {"_fitted.path.objectives": lambda a: a[1:]},
        {"_fitted.path.objectives": lambda a: a * np.nan},
        {"_fitted.path?": False},
        {"_fitted.encoding": {"recipes": []}},
        {"_fitted.encoding": {}},
        {"_fitted.links": {"saving": 1.0}},
        {"_fitted.links": {**NO_LINKS, "saving": "1"}},
        {"_fitted.links": {**NO_LINKS, "saving": -1.0}},
        {"_fitted.links": {**NO_LINKS, "besides": -1.0}},
        {"_fitted.links": {**NO_LINKS, "factor": {**NO_FACTOR, "saving": math.nan}}},
        {"_fitted.links": {**NO_LINKS, "factor": {**NO_FACTOR, "columns": [0, 99]}}},
        {"_fitted.links": {**NO_LINKS, "factor": {**NO_FACTOR, "separate": 1}}},
        {"_fitted.links": {**NO_LINKS, "factor": {}}},
        {"_fitted.links": {**NO_LINKS, "pairs": [[0, 1]]}},
        {"_fitted.links": {**NO_LINKS, "pairs": [[1, 0, 2.0]]}},
        {"_fitted.links": {**NO_LINKS, "pairs": [[0, 99, 2.0]]}},
        {"_fitted.links": {**NO_LINKS, "pairs": [[0, 1, True]]}},
        {"_fitted.links": {**NO_LINKS, "alike": [[0, 99, 0.5]]}},
        {"_fitted.links": {**NO_LINKS, "alike": [[0, 1, math.inf]]}},
        {"_fitted.links": {**NO_LINKS, "implied": [[0, 0, 1]]}},
        {"_fitted.links": {**NO_LINKS, "implied": [[99, 0, 1, 0]]}},
        {"_fitted.links": {**NO_LINKS, "implied": [[1, 0, 2, 999]]}},
        {"_fitted.path.changes.merged": lambda a: a[1:]},
        {"_fitted.path.changes.merged": lambda a: a[::-1]},
        {"_fitted.path.changes.merged": lambda a: a + 9},
        {"_fitted.path.changes.merged.lengths": lambda a: a + 1},
        {"_fitted.along?": False},
        {"_fitted.along.sums": lambda a: a[1:]},
        {"_fitted.along.sums": lambda a: a * 2},
        {"_fitted.along.sums": lambda a: -a},
        {"_fitted.along.sums.lengths": lambda a: a[1:]},
        {"_fitted.along.masks": lambda a: a + 4},
        {"_fitted.along.masks": lambda a: a | 2},
        {"_fitted.along.masks.lengths": lambda a: a[1:]},
        {"_fitted.along.original": lambda a: a[:-1]},
        {"_fitted.along.original?": False},
        {"_typical": lambda a: a[1:]},
        {"_typical": lambda a: a + 999},
        {"_typical.lengths": lambda a: a[1:]},
        {"_unusual": lambda a: a[None]},
        {"_unusual": lambda a: a - 999},
    ],
)
def test_contents_that_do_not_fit(saved, changes):
    rewrite(saved, **changes)
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"_fitted.sums.centre": lambda a: a[1:]},
        {"_fitted.sums.scale": lambda a: a * np.nan},
    ],
)
def test_numbers_that_do_not_fit(heart, tmp_path, changes):
    path = tmp_path / "m"
    save_model(PaperCRAFT(random_state=0).fit(heart), path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("moved", lambda a: a + 999),
        ("moved", lambda a: a - 999),
        ("moved", lambda a: a[1:]),
        ("where", lambda a: a + 9),
        ("where", lambda a: a - 9),
        ("where", lambda a: a[1:]),
    ],
)
def test_rows_that_cannot_move_along_the_path(tmp_path, name, change):
    path = tmp_path / "m"
    model = CRAFT(10, random_state=0).fit(load_heart().data)
    assert any(len(each.moved) for each in model.merge_path_.changes())
    save_model(model, path)
    rewrite(path, **{f"_fitted.path.changes.{name}": change})
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


@pytest.mark.slow_except(10)
@pytest.mark.parametrize(
    "change",
    [
        {"shares": []},
        {"shares": [[0.2]] * 5},
        {"shares": [0.0, 0.25, 0.25, 0.25, 0.25]},
        {"shares": [-0.2, 0.6, 0.2, 0.2, 0.2]},
        {"shares": [0.2, 0.2, 0.2, 0.2, 0.3]},
        {"shares": [0.2, 0.2, 0.2, 0.2, 1e999]},
        {"values": [4.0, 3.0, 2.0, 1.0, 0.0]},
        {"values": [0.0, 0.0, 1.0, 2.0, 3.0]},
        {"values": []},
        {"values": [0.0, 1.0, "x", 3.0, 4.0]},
        {"values": 3},
        {"bounds": [0.5, 1.5]},
        {"bounds": [0.5, 2.5, 1.5, 3.5]},
        {"bounds": [0.5, 1.5, 2.5, float("nan")]},
        {"bounds": [0.5, 1.5, 2.5, 9.0]},
        {"ends": [0.0]},
        {"ends": [5.0, 0.0]},
        {"ends": [0.0, float("inf")]},
        {"ends": None},
        {"period": -24.0},
        {"period": 2.0},
        {"period": float("inf")},
        {"period": "x"},
        {"values": [*range(255)], "bounds": [*range(254)], "shares": [1 / 255] * 255},
    ],
)
def test_levels_that_make_no_sense(tmp_path, change):
    path = tmp_path / "m"
    model = CRAFT(random_state=0).fit(mixed_kinds())
    save_model(model, path)
    encoding = model._fitted.encoding.to_dict()
    few = list(model.numeric_features_in_).index("few")
    assert len(encoding["numbers"][few]["values"]) == 5
    encoding["numbers"][few] |= change
    rewrite(path, **{"_fitted.encoding": encoding})
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


@pytest.mark.parametrize(
    "change",
    [{"numbers": []}, {"numbers": 3}, {"scored": 1}, {"scored": None}],
)
def test_an_encoding_of_other_columns(tmp_path, change):
    path = tmp_path / "m"
    model = CRAFT(covariance="diagonal", random_state=0).fit(mixed_kinds())
    save_model(model, path)
    rewrite(path, **{"_fitted.encoding": model._fitted.encoding.to_dict() | change})
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


@pytest.mark.parametrize(
    "change",
    [
        {"rest": "pictures"},
        {"rest": "numbers"},
        {"rest": "values"},
        {"scores": []},
        {"scores": [[0.0]]},
        {"values": [3.0, 2.0, 1.0], "scores": [0.0, 1.0, 2.0]},
        {"values": [], "scores": []},
        {"values": [1.0, "x"]},
        {"spikes": [0.0], "shares": []},
        {"spikes": [1e999]},
        {"spikes": 3},
    ],
)
def test_encodings_that_make_no_sense(tmp_path, change):
    path = tmp_path / "m"
    model = fixed_price(3, random_state=0).fit(mixed_kinds())
    save_model(model, path)
    encoding = model._fitted.encoding.to_dict()
    by_rank = next(recipe for recipe in encoding["recipes"] if recipe["rest"] == "ranks")
    by_rank |= change
    rewrite(path, **{"_fitted.encoding": encoding})
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


def test_the_encoding_of_another_model(tmp_path):
    path = tmp_path / "m"
    frame, other = mixed_kinds(), fixed_price(3, random_state=0).fit(mixed_kinds())
    save_model(CRAFT(random_state=0).fit(frame), path)
    rewrite(path, **{"_fitted.encoding": other._fitted.encoding.to_dict()})
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


@pytest.mark.parametrize(
    "change",
    [
        {"selection": "new"},
        {"model": "new"},
        {"model": []},
        {"price?": 1},
        {"price_factor": None},
        {"price_factor": "1"},
        {"variance?": True},
        {"absolute": 0},
    ],
)
def test_rules_that_make_no_sense(saved, change):
    rewrite(saved, **{f"_fitted.spec.{name}": value for name, value in change.items()})
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(saved)


def test_sums_that_are_missing(tmp_path):
    path = tmp_path / "m"
    save_model(CRAFT(random_state=0).fit(mixed_kinds()), path)
    write_arrays(
        path, {name: array for name, array in arrays_of(path).items() if name != "_fitted.original.groups"}
    )
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(path)


def npy(array, shape=None):
    """An array as a member of an archive; with `shape`, its header promises another shape."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    old, new = repr(array.shape).encode(), repr(array.shape if shape is None else shape).encode()
    header, gap = buffer.getvalue(), len(new) - len(old)
    return header.replace(old, new, 1).replace(b" " * gap + b"\n", b"\n", 1) if gap else header


def replace_member(path, name, member):
    write_members(path, members_of(path) | {name: member})


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("_fitted.sums.groups", npy(np.zeros((2, 2), np.int64), (10**9, 10**9))),  # 8 EB
        ("labels_", npy(np.zeros(270, np.int32), (-270,))),
        ("labels_", npy(np.zeros(270, np.int32))[:-1]),
        ("labels_", npy(np.zeros(270, np.int32)) + b"x"),
        ("labels_", npy(np.zeros(270, "S4"))),
        ("labels_", b"\x93NUMPY\x02\x00" + npy(np.zeros(270, np.int32))[8:]),
        ("model", npy(np.frombuffer(b"[" * 100_000, np.uint8))),
        ("model", npy(np.frombuffer(b'{"format": "craftc-model", "n": NaN}', np.uint8))),
        ("model", npy(np.frombuffer(b'{"format": "craftc-model", "n": 1' + b"0" * 5000 + b"}", np.uint8))),
    ],
)
def test_members_that_contradict_their_size(saved, name, member):
    replace_member(saved, name, member)
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(saved)


def claim(path, name, n_bytes, header):
    """Replace a member by a header; header and directory agree that data of this many bytes follow, which are
    not there.
    """
    replace_member(path, name, header)
    content = bytearray(path.read_bytes())
    entry = content.rindex(
        b"PK\x01\x02", 0, content.index(f"{name}.npy".encode(), content.index(b"PK\x01\x02"))
    )
    content[entry + 24 : entry + 28] = (len(header) + n_bytes).to_bytes(4, "little")
    path.write_bytes(bytes(content))


def test_a_member_that_claims_to_expand_beyond_what_deflate_can(saved):
    claim(saved, "model", 10_000_000, npy(np.zeros(0, np.uint8), (10_000_000,)))
    with pytest.raises(ValueError, match=r"model has another size than shape \(10000000,\) needs"):
        load_model(saved)


def test_members_that_are_too_large_for_the_file(saved, tmp_path):
    claim(saved, "labels_", 2**31, npy(np.zeros(0, np.int32), (2**29,)))
    with pytest.raises(ValueError, match="its members are too large for its length"):
        load_model(saved)
    bomb = npy(np.zeros(17_000_000, np.uint8))
    write_members(tmp_path / "head", {"model": bomb})
    with pytest.raises(ValueError, match="its members are too large for its length"):
        load_model(tmp_path / "head")


def test_a_model_that_compresses_too_well_is_stored_as_it_is(heart, tmp_path, monkeypatch):
    """What would be refused on loading is written without compression."""
    X = np.repeat(np.eye(2), 3000, axis=0)
    model = craftc.DPMeans(n_clusters=2, random_state=0).fit(X)
    save_model(model, tmp_path / "m")
    short = (tmp_path / "m").stat().st_size
    monkeypatch.setattr("craftc.saved.archive._SMALL", 0)
    monkeypatch.setattr("craftc.saved.archive._MOST_EXPANDED", 4)
    with pytest.raises(ValueError, match="its members are too large for its length"):
        load_model(tmp_path / "m")
    save_model(model, tmp_path / "m")
    assert (tmp_path / "m").stat().st_size > 24_000 > 4 * short
    np.testing.assert_array_equal(load_model(tmp_path / "m").labels_, model.labels_)


def test_a_change_without_its_checksum_is_refused(saved):
    members = members_of(saved)
    arrays = {name: np.load(io.BytesIO(member)) for name, member in members.items()}
    swapped = members | {"labels_": npy(arrays["labels_"][::-1]), "margins_": npy(arrays["margins_"] * 2)}
    head = members | {"model": members["model"].replace(b'"n_iter_": ', b'"n_iter_":  ')}
    extra, fewer = (
        members | {"more": members["labels_"]},
        {name: members[name] for name in members if name != "_typical"},
    )
    none = {name: members[name] for name in members if name != "checksum"}
    wrong = members | {"checksum": npy(arrays["checksum"][:-1])}
    assert head["model"] != members["model"]
    for changed in (swapped, extra, fewer, none, wrong):
        write_members(saved, changed, checksum=False)
        with pytest.raises(ValueError, match=r"do not have its checksum|checksum (is missing|has shape)"):
            load_model(saved)
    write_members(saved, head, checksum=False)
    with pytest.raises(ValueError, match="is damaged or cut short"):
        load_model(saved)
    write_members(saved, members)
    load_model(saved)


def test_two_members_of_one_name(saved):
    with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("labels_.npy", archive.read("labels_.npy"))
    with pytest.raises(ValueError, match="two members of one name"):
        load_model(saved)


def test_the_same_model_gives_the_same_bytes(heart, saved, tmp_path):
    save_model(load_model(saved), tmp_path / "again")
    first, second = members_of(saved), members_of(tmp_path / "again")
    assert first.keys() == second.keys()
    assert all(first[name] == second[name] for name in first.keys() - {"model", "checksum"})
    save_model(load_model(saved), tmp_path / "third")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "third").read_bytes()


def test_memory_that_does_not_suffice(saved, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(np.lib.format, "read_array", fail)
    with pytest.raises(
        MemoryError, match=r"m\.craftc' needs 0 MB of memory, more than this process can have"
    ):
        load_model(saved)


def test_a_value_that_cannot_be_stored_is_refused_before_anything_is_written(heart, tmp_path):
    model = CRAFT(n_clusters=2, random_state=0).fit(heart)
    model._fitted.links.saving = np.inf
    with pytest.raises(
        ValueError, match=r"holds a value that a model file cannot store: Out of range float values"
    ):
        save_model(model, tmp_path / "m")
    model.set_params(categorical=object())
    with pytest.raises(TypeError, match=r"The parameter categorical=<object .* cannot be written to a file"):
        save_model(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_array_likes_among_the_parameters(heart, tmp_path):
    X = heart[["age", "sex", "chol"]]
    model = fixed_price(2, categorical=pd.Index(["sex"]), random_state=0, cluster_price=Fraction(9, 2)).fit(X)
    again = round_trip(model, tmp_path)
    assert (again.categorical, again.cluster_price) == (["sex"], 4.5)
    check_equal(model, again, X)


def test_public_names():
    assert {"save_model", "load_model"} <= set(craftc.__all__)
    with pytest.raises(FileNotFoundError):
        load_model("/no/such/model")
