"""A fitted model as an ONNX graph, for services in other languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from craftc._about import version
from craftc.export.models import scoring_of

if TYPE_CHECKING:
    from onnx import ModelProto
    from sklearn.base import BaseEstimator

_OUTPUTS = ("label", "cluster", "margin", "costs")
_OPSET, _ML_OPSET, _IR_VERSION = 17, 3, 8  # of 2022, which older runtimes know


def to_onnx(model: BaseEstimator) -> ModelProto:
    """A fitted model as an ONNX graph, which services in Java, C#, JavaScript or C++ run without Python.

    Parameters
    ----------
    model : CRAFT, PaperCRAFT, KModes, KPrototypes or DPMeans
        Fitted.

    Returns
    -------
    onnx.ModelProto
        One input of shape (n, 1) for every column of the model, of its name: strings for text, otherwise
        doubles (truth values 0 and 1, dates in days since 1970-01-01). Outputs: ``label`` (n,) that of
        `predict`; ``cluster`` (n,) the number of the report, 1 is the largest; ``margin`` (n,) and ``costs``
        (n, K), what every cluster costs, in the order of the labels: `transform` of a `CRAFT`, its squares of
        a `DPMeans` (``covariance="full-sized"``: with lambda^2 log|Sigma_k|, by which `predict` decides),
        dissimilarities of a `KModes` or `KPrototypes`.

    Raises
    ------
    ImportError
        onnx is not installed (``pip install 'craftc[export]'``).
    NotFittedError, TypeError, ValueError
        The model is not fitted, is of another class, or has a part without a formula; a column has the name
        of an output.

    Notes
    -----
    A missing number is NaN, a missing text ``"(missing)"``. Rows that `predict` refuses have the label and
    the cluster -1. The graph needs the operators of opset 17 and of ai.onnx.ml 3, in double precision. Its
    metadata list the clusters and their names.

    Examples
    --------
    >>> import craftc
    >>> heart = craftc.datasets.load_heart().data
    >>> model = craftc.CRAFT(n_clusters=2, random_state=0).fit(heart)
    >>> graph = craftc.to_onnx(model).graph
    >>> [each.name for each in graph.output]
    ['label', 'cluster', 'margin', 'costs']
    >>> with open("heart.onnx", "wb") as file:  # doctest: +SKIP
    ...     file.write(craftc.to_onnx(model).SerializeToString())
    """
    scoring = scoring_of(model, whole=True)
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ImportError("craftc.to_onnx needs onnx: pip install 'craftc[export]'.") from error
    taken = [name for name in scoring.columns if name in _OUTPUTS or not name]
    if taken:
        raise ValueError(f"The column {taken[0]!r} has no name, or that of an output; fit with another name.")
    from craftc.export.onnx_scorer import Scorer

    own = Scorer(scoring, _OUTPUTS)
    doubles, integers, text = TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING
    inputs = [
        helper.make_tensor_value_info(name, text if expected == "text" else doubles, ["n", 1])
        for name, expected in zip(scoring.columns, scoring.expected, strict=True)
    ]
    shapes: dict[str, tuple[int, list[str | int]]] = {
        "label": (integers, ["n"]),
        "cluster": (integers, ["n"]),
        "margin": (doubles, ["n"]),
    }
    shapes["costs"] = doubles, ["n", len(scoring.base)]
    outputs = [helper.make_tensor_value_info(name, *shapes[name]) for name in _OUTPUTS]
    sets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    made = helper.make_model(
        own.graph.finished(inputs, outputs, "craftc"),
        opset_imports=sets,
        ir_version=_IR_VERSION,
        producer_name="craftc",
        producer_version=version(),
        doc_string=scoring.title,
    )
    about = {f"label {k}": f"cluster {n}" for k, n in enumerate(scoring.number_of.tolist())}
    for k, name in enumerate(scoring.names):
        about[f"label {k}"] += f": {name}"
    helper.set_model_props(made, about)
    return made
