"""The report as text: one table per measure, a column per checkpoint."""

from collections.abc import Iterator, Sequence

import pandas as pd

from db.intervals import RELIABLE
from db.lines import TITLES, lines
from db.published import beside, why_not
from db.report import LISTED, Report, deepest, shallowest
from db.rules import Rule

COUNTS = ("left_out", "token_types", "end_of_text_occurrences")
NOTES = {
    5: [
        "Deciles of the realised loss select on the outcome: a model that is merely sharper loses on surprising targets,",
        "so deciles of the entropy, known before the target, stand beside them. All neighbours go shallow too:",
        "a benefit includes its context's. Gate open: the same with the gate held at alpha.",
    ],
    8: [
        "A policy X_open is compared with router_open; router_depths_open with router: what opening the gate does to the very same tokens.",
        "Gate effect: (X_open - router_open) - (X - router), paired by sequence.",
    ],
}
CORRELATED = (1, 2, 5, 6)
RESTRICTED = "Range restricted: the filter truncates a correlated variable."


def text(report: Report) -> str:
    """The whole report."""
    every = pd.concat([lines(found) for found in report.checkpoints], ignore_index=True)
    is_restricted = report.study.is_range_restricted(report.where)
    parts = [_heading(report)]
    for measure, title in TITLES.items():
        rows = every[every["measure"] == measure]
        notes = [_origins(rows), *NOTES.get(measure, []), *([RESTRICTED] if is_restricted and measure in CORRELATED else [])]
        parts.append("\n".join([f"{measure}. {title}", *(f"   {note}" for note in notes), "", _figures(rows)]))
        if measure == 7:
            parts += _token_lists(report)
    parts += [_rules(report), _published(report, every), _cautions(report)]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text under a header, columns aligned, the first to the left and the others to the right."""
    columns = list(zip(header, *rows)) if rows else [(name,) for name in header]
    widths = [max(map(len, column)) for column in columns]
    lined = [[cell.ljust(width) if index == 0 else cell.rjust(width) for index, (cell, width) in enumerate(zip(row, widths))] for row in (header, *rows)]
    lined.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(row).rstrip() for row in lined)


def _heading(report: Report) -> str:
    counts, meta = report.study.counts, report.study.meta
    reference = "no reference model"
    if report.reference:
        both = (_cell("", *_numbers(estimate)) for estimate in (report.reference_loss, report.reference_loss_first_500))
        reference = "reference {}: mean loss {}; first 500 sequences {}".format(report.reference, *both)
    return "\n".join(
        [
            f"{report.study.name}: {counts['sequences']:,} sequences, {counts['scored']:,} scored positions, data {meta.get('dataset')}",
            reference,
            f"Filter: {report.where or 'none'}",
            f"[low, high]: 95% bootstrap over sequences; ? marks one from under {RELIABLE} sequences, which is unreliable. n: positions.",
        ]
    )


def _origins(rows: pd.DataFrame) -> str:
    found = []
    for checkpoint, part in rows.groupby("checkpoint", sort=False):
        labels = part.loc[part["origin"] == "pre-set", "label"].tolist()
        if labels:
            found.append(checkpoint if len(labels) == len(part) else f"{checkpoint} ({', '.join(labels)})")
    return f"Origin: pre-set for {', '.join(found)}; otherwise exploratory." if found else "Origin: exploratory."


def _figures(rows: pd.DataFrame) -> str:
    """A row per figure, in the order of the checkpoint that has most, and a column per checkpoint."""
    checkpoints = list(dict.fromkeys(rows["checkpoint"]))
    rows = rows.assign(had=rows.groupby("checkpoint")["figure"].transform("size")).sort_values("had", ascending=False, kind="stable")
    cells = {(row.figure, row.checkpoint): _cell(row.figure, row.value, row.low, row.high, row.n, row.reliable, row.sequences) for row in rows.itertuples()}
    labels = dict(zip(rows["figure"], rows["label"]))
    return table(["", *checkpoints], [[label, *(cells.get((figure, checkpoint), "") for checkpoint in checkpoints)] for figure, label in labels.items()])


def _numbers(estimate) -> tuple:
    row = estimate.row()
    return tuple(row[name] for name in ("value", "low", "high", "n", "reliable", "sequences"))


def _cell(figure: str, value: float, low: float, high: float, n: int, is_reliable: bool, sequences: int) -> str:
    if pd.isna(value):
        return "no variance" if n and figure.startswith(("lexical_r2", "r2.")) else "-"
    if figure.endswith(COUNTS):
        return f"{value:,.0f}"
    interval = "" if pd.isna(low) else f" [{_number(low)}, {_number(high)}]{'' if is_reliable else '?'}"
    return f"{_number(value)}{interval} n {n:,}"


def _token_lists(report: Report) -> Iterator[str]:
    for found in report.checkpoints:
        for title, part in (("deepest", deepest(found.tokens)), ("shallowest", shallowest(found.tokens))):
            rows = [
                [repr(row.token) if isinstance(row.token, str) else f"id {row.token_id}", f"{row.n:,}", _number(row.mean_depth), _number(row.sd_depth), _number(row.mean_vanilla_loss)]
                for row in part.itertuples()
            ]
            yield f"{found.checkpoint}, {title} {LISTED}\n" + table(["token", "n", "mean depth", "spread", "vanilla loss"], rows)


def _number(value: float) -> str:
    return "-" if pd.isna(value) else f"{round(value, 3) + 0.0:.3f}"  # + 0.0: no negative zero


def _rules(report: Report) -> str:
    rows = []
    for found in report.checkpoints:
        for rule in found.rules:
            for condition in rule.conditions:
                numbers = [_number(condition.value), _number(condition.threshold), _number(condition.distance)]
                rows.append([found.checkpoint, rule.name, condition.figure, *numbers, _verdict(rule), rule.origin])
    header = ["checkpoint", "rule", "figure", "value", "threshold", "distance", "verdict", "origin"]
    return "9. Reading rules\n\n" + table(header, rows)


def _verdict(rule: Rule) -> str:
    return {True: "yes", False: "no", None: "undecided"}[rule.verdict]


def _published(report: Report, every: pd.DataFrame) -> str:
    reason = why_not(report.study, report.where)
    if reason:
        return f"Published values are not shown: {reason}."
    rows = [
        [row.checkpoint, f"{row.measure}. {row.label}", _number(row.value), f"{row.n:,}", row.published, _number(row.difference), row.source]
        for row in beside(every, report.study.checkpoints).itertuples()
    ]
    return "Published values\n\n" + table(["checkpoint", "figure", "here", "n", "published", "difference", "source"], rows)


def _cautions(report: Report) -> str:
    reported = [found.checkpoint for found in report.checkpoints]
    return "\n".join(["10. To be kept in mind", "", *(f"- {caution}" for caution in report.study.cautions(reported, report.where))])

