"""mlflow logs fitted models in its default format, and serves them: `.ci/job clients` installs it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import craftc
from craftc.datasets import load_heart

mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: .ci/job clients")
skops = pytest.importorskip("skops.io", reason="skops is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # mlflow's own

FRAME = load_heart().data
TEXTS = FRAME.astype(dict.fromkeys(FRAME.columns[FRAME.dtypes == "category"], str))
NUMBERS = FRAME[["age", "rest_bp", "chol", "max_hr"]].astype(float)
MODELS = {
    "CRAFT": (craftc.CRAFT(random_state=0, n_init=2), TEXTS),
    "DPMeans": (craftc.DPMeans(n_clusters=3, random_state=0), NUMBERS),
    "FeatureSelectionMixture": (craftc.FeatureSelectionMixture(3, random_state=0), NUMBERS),
    "KPrototypes": (craftc.KPrototypes(3, n_init=1, random_state=0), TEXTS),
    "pipeline": (make_pipeline(StandardScaler(), craftc.DPMeans(n_clusters=3, random_state=0)), NUMBERS),
}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")


@pytest.mark.parametrize("name", MODELS)
def test_the_default_format(store, name):
    model, rows = MODELS[name]
    expected = model.fit(rows).predict(rows)
    types = skops.get_untrusted_types(data=skops.dumps(model))
    with mlflow.start_run():
        logged = mlflow.sklearn.log_model(
            model, name="model", skops_trusted_types=types, input_example=rows[:5]
        )
    assert (mlflow.sklearn.load_model(logged.model_uri).predict(rows) == expected).all()
    served = mlflow.pyfunc.load_model(logged.model_uri)
    assert (np.asarray(served.predict(rows)) == expected).all()
