"""ONNX graphs return the clusters and the costs of the model, in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import craftc
from craftc.describe.view import numbers_by_size
from craftc.table.level_column import MISSING_LEVEL
from tests.estimators.covariance_cases import spread_apart_mixed
from tests.export import scored_tables as tables

pd = pytest.importorskip("pandas", reason="tables are data frames")
onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'craftc[export]'")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")


def scored(model, rows):
    """The outputs for some rows, by name."""
    made = craftc.to_onnx(model)
    onnx.checker.check_model(made, full_check=True)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {}
    for each in session.get_inputs():
        cells = rows[each.name]
        if each.type == "tensor(string)":
            texts = [MISSING_LEVEL if pd.isna(cell) else str(cell) for cell in cells]
            given[each.name] = np.array(texts, object)[:, None]
        else:
            given[each.name] = cells.astype(float).to_numpy()[:, None]
    outputs = [each.name for each in session.get_outputs()]
    return dict(zip(outputs, session.run(None, given), strict=True))


def check(model, rows):
    found, labels = scored(model, rows), model.predict(rows)
    sure = found["margin"] > 1e-6
    assert (found["label"][sure] == labels[sure]).all()
    assert (found["cluster"][sure] == numbers_by_size(model.cluster_sizes_)[labels][sure]).all()
    if hasattr(model, "feature_gains_"):
        costs = model._fitted_clusters().full_costs(model._read_new(rows))
        np.testing.assert_allclose(found["costs"], costs, rtol=1e-9, atol=1e-5)
        np.testing.assert_allclose(found["margin"], model.margins(rows), rtol=1e-9, atol=1e-5)
    elif isinstance(model, craftc.DPMeans):
        squares = found["costs"]
        if model.covariance == "full-sized":
            squares = squares - model.cluster_penalty_ * np.linalg.slogdet(model.covariances_)[1]
        np.testing.assert_allclose(squares, model.transform(rows) ** 2, rtol=1e-8, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Column .* cells of .* lie outside the range of the fit")
@pytest.mark.slow_except(4)
@pytest.mark.parametrize("seed", range(300, 360))
def test_random_models(seed):
    rng = np.random.default_rng(seed)
    model, frame = tables.random_model(tables.random_table(rng), rng)
    rows = frame if isinstance(model, craftc.DPMeans) else tables.new_rows(frame, rng)
    check(model, rows)


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("form", ["full", "tied"])
def test_missing_cells_in_a_covariance(form):
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 3, 300)
    base = rng.normal(3.0 * groups, 1.0)
    frame = pd.DataFrame({"a": base, "b": 0.8 * base + 0.3 * rng.normal(size=300), "c": rng.normal(groups)})
    model = craftc.CRAFT(3, covariance=form, init=groups, n_init=1, random_state=0).fit(frame)
    assert any(each is not None for each in model.covariances_)
    check(model, frame)
    check(model, frame.mask(rng.random(frame.shape) < 0.4))
    check(model, frame[:1])


def test_normal_densities_of_levels():
    frame = spread_apart_mixed()
    model = craftc.CRAFT(random_state=0).fit(frame)
    assert model._fitted.clusters.normals is not None
    check(model, frame)


def test_the_size_of_a_shared_covariance():
    """Its sweeps are in the graph once, without matrices of their own."""
    rng = np.random.default_rng(0)
    groups = np.arange(90) % 3
    X = rng.normal(size=(90, 1)) + rng.normal(size=(90, 40)) + 4.0 * groups[:, None]
    model = craftc.CRAFT(3, covariance="tied", init=groups, n_init=1, random_state=0).fit(X)
    assert [len(each.columns) for each in model.covariances_] == [40] * 3
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(40)])
    check(model, frame.mask(rng.random(frame.shape) < 0.2))
    graph = craftc.to_onnx(model).graph
    matrices = [each for each in graph.initializer if list(each.dims)[-2:] == [40, 40]]
    assert len(matrices) < 10


def test_rows_that_predict_refuses():
    frame = pd.DataFrame({"x": [0.0, 0.1, 9.0, 9.1] * 10, "c": ["a", "b", "b", "b"] * 10})
    model = craftc.CRAFT(n_clusters=2, missing="error", unknown="error", random_state=0).fit(frame)
    rows = pd.DataFrame({"x": [0.0, None, 9.0, 9.0], "c": ["a", "a", None, "new"]})
    found = scored(model, rows)
    assert (found["label"] >= 0).tolist() == [True, False, False, False]
    assert np.isnan(found["margin"]).tolist() == [False, True, True, True]


def test_what_the_file_says():
    heart = craftc.datasets.load_heart().data
    model = craftc.CRAFT(2, n_init=1, random_state=0).fit(heart)
    made = craftc.to_onnx(model)
    about = {each.key: each.value for each in made.metadata_props}
    number = numbers_by_size(model.cluster_sizes_)
    assert about == {f"label {k}": f"cluster {number[k]}: {model.cluster_names_[k]}" for k in range(2)}
    assert [each.name for each in made.graph.input] == list(heart.columns)


def test_names_of_outputs_are_taken():
    frame = pd.DataFrame({"costs": np.repeat([0.0, 5.0], 30)})
    with pytest.raises(ValueError, match="'costs' has no name, or that of an output"):
        craftc.to_onnx(craftc.CRAFT(2, n_init=1, random_state=0).fit(frame))
    with pytest.raises(TypeError, match="KFeatures"):
        craftc.to_onnx(craftc.KFeatures())
