"""``craftc cluster``: read a table, fit CRAFT, print the answer and write the files of --out."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from craftc._common.atomic_write import replacing, replacing_together
from craftc._common.threads import effective_n_threads
from craftc.cli import target as targets
from craftc.cli.arguments import ClusterOptions, clean, in_options
from craftc.cli.columns import ColumnRoles, check_used, name_model, own_names, with_own_names
from craftc.cli.json_output import document
from craftc.cli.layout import PageLayout
from craftc.cli.page import Answer, Result, page
from craftc.cli.results import results_in
from craftc.cli.sources import TableSource, opened
from craftc.cli.unusual import unusual_rows
from craftc.cli.weights import note_of_weights
from craftc.cli.writers import without_formulas, write_csv
from craftc.craft import CRAFT, Progress
from craftc.craft.answers.path import rows_to_test, structure_of
from craftc.craft.answers.stability import agreement_of
from craftc.craft.fitted import WeightColumn
from craftc.describe.structure import Starts
from craftc.describe.view import numbers_of
from craftc.describe.words import plural
from craftc.reading.labels import read_labels
from craftc.saved.save_and_load import save_model

NAMES = ("labels.csv", "summary.csv", "model.craftc", "report.html")


def run(options: ClusterOptions) -> None:
    effective_n_threads(options.threads)
    options.check()
    with ProgressBar(on=not options.quiet) as bar, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        bar.stage(f"reading {options.shown}")
        names = {} if options.labels is None else read_labels(options.labels, "--labels")
        with opened(with_own_names(options, names)) as source:
            result = _result(source, names, bar, warned)
            if options.out is not None:
                bar.stage("writing")
                _write_files(source, result)
    if options.as_json:
        print(document(result))
    elif not options.quiet:
        details = options.details or options.all_features
        lines = page(PageLayout(sys.stdout), result, details=details, all_features=options.all_features)
        print("\n".join(lines))


def _result(
    source: TableSource,
    names: Mapping[str, str],
    bar: ProgressBar,
    warned: Sequence[warnings.WarningMessage],
) -> Result:
    """The fit, and all that is printed about it."""
    options = source.options
    roles = source.roles()
    check_used(roles, options)
    columns, clusters = own_names(names, roles)
    if roles.target is not None:
        roles.target = targets.without_infinities(roles.target, roles.notes)
    model, starts = _fits(source, roles, bar)
    name_model(model, columns, clusters)
    if options.weight is not None:
        model._weight = WeightColumn(options.weight, options.scale_weight)
    stability = None
    if options.stability is not None:
        bar.stage(f"stability: {options.stability} refits")
        weight, groups = roles.weight, roles.groups
        stability = model.stability(roles.features, options.stability, sample_weight=weight, groups=groups)
    bar.stage("permuted columns")
    null_test = model.null_test(roles.features, 1, random_state=options.seed, sample_weight=roles.weight)
    bar.stage("")
    structure = structure_of(model, null_test, stability, () if starts is None else starts.agreement)
    roles.notes = [in_options(note) for note in roles.notes]
    said = [str(warning.message) for warning in warned]
    if roles.weight is not None:
        said.insert(0, note_of_weights(str(options.weight), float(roles.weight.sum())))
    messages = list(dict.fromkeys(map(in_options, [*said, *model._notes()])))
    answer = Answer(model)
    result = Result(
        options.shown,
        roles,
        options.clusters if isinstance(options.clusters, int) else None,
        answer,
        null_test,
        structure,
        messages,
        starts=starts,
        stability=stability,
        unusual=None if roles.here is None else unusual_rows(model, roles.here),
    )
    if roles.target is not None:
        own = model.labels_ if model._partition is None else model._partition  # on a cluster: no outliers
        positions = answer.numbers[np.asarray(own)] - 1
        target = columns.get(str(roles.target.name), str(roles.target.name))
        result.target = targets.compare(target, roles.target, positions, model.n_clusters_)
    return result


def _fits(source: TableSource, roles: ColumnRoles, bar: ProgressBar) -> tuple[CRAFT, Starts | None]:
    """The best fit of those from all seeds, with its warnings alone; and how far the others agree."""
    options = source.options
    fits: list[tuple[int, CRAFT, list[warnings.WarningMessage]]] = []
    for seed in ((options.seed + i) % 2**32 for i in range(options.starts)):
        model = CRAFT(
            options.clusters,
            min_cluster_size=options.min_cluster_size,
            max_cluster_size=options.max_cluster_size,
            column_weights=options.weights_of_columns or None,
            outlier_price=options.outlier_price,
            price_factor=options.price_factor,
            feature_sharing=options.feature_sharing,
            categorical=roles.levels,
            missing=options.missing,
            random_state=seed,
            n_threads=options.threads,
        )
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            source.fit(model, roles, bar.callback)
        fits.append((seed, model, warned))
    fits.sort(key=lambda fit: fit[1].objective_)
    seeds, models = [seed for seed, _, _ in fits], [model for _, model, _ in fits]
    best = models[0]
    for warning in fits[0][2]:
        warnings.warn(warning.message, warning.category, stacklevel=2)
    if len(fits) == 1:
        return best, None
    bar.stage("comparing seeds")
    rows = rows_to_test(best, roles.features, options.seed, roles.weight, None)[0]
    return best, Starts(
        seeds,
        [int(model.n_clusters_) for model in models],
        [float(model.objective_) for model in models],
        agreement_of(models, rows),
    )


def _write_files(source: TableSource, result: Result) -> None:
    """Write the files of a fit, which replace earlier files together; the result names them."""
    options, model, roles = source.options, result.answer.model, result.roles
    folder = Path(str(options.out))
    former = [*NAMES, *(os.path.join("labels", name) for name in results_in(folder / "labels"))]
    with replacing_together(folder, former, None if options.quiet else say) as new:
        source.write_labels(new, model, roles)
        write_summary(model, new / "summary.csv", options.escape_formulas)
        save_model(model, new / "model.craftc")
        if "report.html" in source.files and (features := roles.here) is not None:
            from craftc import report

            report.write(
                model,
                features,
                new / "report.html",
                target=roles.target if roles.target is not None and roles.target.notna().any() else None,
                stability=result.stability,
                null_test=result.null_test,
                agreement=() if result.starts is None else result.starts.agreement,
                title="" if options.shown == "-" else Path(options.shown).name,
            )
    result.folder, result.files = str(options.out), source.files


def write_summary(model: CRAFT, path: Path, escape_formulas: bool) -> None:
    """Write what defines every cluster."""
    with replacing(path) as file:
        summary: Any = model.summary()  # of pandas
        summary.insert(1, "label", summary["cluster"])
        summary["cluster"] = numbers_of(model._fitted.by_number)[summary["label"]]
        summary = summary.sort_values("cluster", kind="stable")
        write_csv([without_formulas(summary) if escape_formulas else summary], file)


def say(text: str) -> None:
    """Print a note."""
    print(f"craftc: note: {clean(text)}", file=sys.stderr)


class ProgressBar:
    """A bar on stderr, cleared at the end; nothing is written if it is off or stderr is no terminal."""

    def __init__(self, on: bool) -> None:
        self._bars: Bars | None = None
        self._stage = ""  # of the fit
        if on and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[left]}", markup=False),
            )
            console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False)
            self._bars = Bars(*columns, console=console, transient=True)
            self._task = self._bars.add_task("", total=None, left="")

    def __enter__(self) -> ProgressBar:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def stage(self, text: str) -> None:
        """Show a stage whose length is not known."""
        if self._bars is not None:
            self._bars.update(self._task, description=clean(text)[:60], total=None, left="", refresh=True)

    @property
    def callback(self) -> Callable[[Progress], None] | None:
        """The callback of a fit; None if there is no bar."""
        return None if self._bars is None else self._show

    def _show(self, progress: Progress) -> None:
        assert self._bars is not None
        left = f"{100 * progress.share:.0f} %" + (
            "" if progress.remaining_s is None else f", {duration(progress.remaining_s)} left"
        )
        text = f"{progress.stage}: {plural(progress.n_clusters, 'cluster')}"
        new, self._stage = progress.stage != self._stage, progress.stage  # even a short stage is shown
        self._bars.update(
            self._task, description=text, total=1.0, completed=progress.share, left=left, refresh=new
        )


def duration(seconds: float) -> str:
    """ "8 s", "2 min 30 s", "1 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
