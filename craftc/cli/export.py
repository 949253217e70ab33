"""``craftc export``: a model as a statement of SQL, or as an ONNX file."""

from __future__ import annotations

import os
import sys

from craftc._common.atomic_write import replacing
from craftc.cli.arguments import ExportOptions
from craftc.cli.models import model_file
from craftc.export import to_sql
from craftc.saved.save_and_load import load_model


def run(options: ExportOptions) -> None:
    path = model_file(options.model)
    if options.out is not None and os.path.exists(options.out) and os.path.samefile(options.out, path):
        raise ValueError(f"--out {options.out!r} would overwrite the model; pass another name.")
    model = load_model(path)
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
