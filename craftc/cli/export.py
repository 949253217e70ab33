"""``craftc export``: a model as a statement of SQL, or as an ONNX file."""

from __future__ import annotations

import os
import sys

from craftc._common.atomic_write import replacing
from craftc.cli.arguments import ExportOptions
from craftc.cli.sources import model_file
from craftc.export import to_onnx, to_sql
from craftc.saved.save_and_load import load_model


def run(options: ExportOptions) -> None:
    path = model_file(options.model)
    if options.out is not None and os.path.exists(options.out) and os.path.samefile(options.out, path):
        raise ValueError(f"--out {options.out!r} would overwrite the model; pass another name.")
    if (options.sql is None) != options.onnx:
        raise ValueError("craftc export writes SQL (--sql DIALECT) or ONNX (--onnx): pass one of them.")
    if options.onnx and options.out is None:
        raise ValueError("--onnx writes a binary file: --out needs its name.")
    model = load_model(path)
    if options.sql is None:
        made = to_onnx(model).SerializeToString()
        with replacing(str(options.out), "wb") as binary:
            binary.write(made)
        return
    statement = to_sql(
        model,
        options.table,
        key=options.key or ("id",),
        dialect=options.sql,
        margin=options.margin,
        probabilities=options.probabilities,
    )
    if options.out is None:
        sys.stdout.write(statement)
        return
    with replacing(options.out) as file:
        file.write(statement)
