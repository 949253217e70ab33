"""``craftc cluster``: read a table, fit CRAFT, print the answer and write the files."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import numpy as np

from craftc._common.threads import effective_n_threads
from craftc.cli import target as targets
from craftc.cli.answer import Answer
from craftc.cli.arguments import ClusterOptions
from craftc.cli.json_output import document
from craftc.cli.layout import PageLayout
from craftc.cli.page import Result, page
from craftc.cli.progress_bar import ProgressBar
from craftc.cli.sources import TableSource, opened
from craftc.cli.text import in_options
from craftc.craft import CRAFT


def run(options: ClusterOptions) -> None:
    """Run the command."""
    effective_n_threads(options.threads)
    options.check()
    with ProgressBar(on=not options.quiet) as bar, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        bar.stage(f"reading {options.table}")
        with opened(options) as source:
            result = _result(source, bar, warned)
            if options.out is not None:
                bar.stage("writing")
                from craftc.cli.result_files import write_files  # the report takes time to import

                write_files(source, result)
    if options.as_json:
        print(document(result))
    elif not options.quiet:
        details = options.details or options.all_features
        lines = page(PageLayout(sys.stdout), result, details=details, all_features=options.all_features)
        print("\n".join(lines))


def _result(source: TableSource, bar: ProgressBar, warned: Sequence[warnings.WarningMessage]) -> Result:
    """The fit, and all that is printed about it."""
    options = source.options
    roles = source.roles()
    if roles.target is not None:
        roles.target = targets.without_infinities(roles.target, roles.notes)
    model = CRAFT(
        options.clusters if isinstance(options.clusters, int) else None,
        price_factor=options.price_factor,
        categorical=roles.levels,
        missing=options.missing,
        random_state=options.seed,
        n_threads=options.threads,
    )
    source.fit(model, roles, bar.callback)
    n_found = model.n_clusters_
    if options.clusters == "suggested":
        model = model.at("suggested", roles.here)
    stability = None
    if options.stability is not None:
        bar.stage(f"stability: {options.stability} refits")
        stability = model.stability(roles.features, options.stability)
    bar.stage("")
    answer = Answer(model)
    roles.notes = [in_options(note) for note in roles.notes]
    messages = list(dict.fromkeys(in_options(str(warning.message)) for warning in warned))
    result = Result(options.table, roles, options.clusters, n_found, answer, messages, stability=stability)
    if roles.target is not None:
        positions = answer.numbers[np.asarray(model.labels_)] - 1
        result.target = targets.compare(str(roles.target.name), roles.target, positions, model.n_clusters_)
    return result
