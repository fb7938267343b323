"""Tables: functions from a frame to the frame that is shown under a chart, its figures as text."""

from collections.abc import Mapping, Sequence

import pandas as pd

from db.figures import Figures
from db.report import Report
from db.study import Study
from pages.parts import rulings
from pages.parts.words import count, estimate, interval

VERDICTS = {True: "yes", False: "no", None: "undecided"}
MEASURES = {
    "spearman_loss": "ρ of depth with vanilla loss",
    "partial_spearman_loss": "the same without token and position",
    "lexical_r2": "R² of depth from the token",
    "routing_added_loss": "added loss of random routing, nats",
}
FACTS = {
    "created_at": "computed at",
    "dataset": "text",
    "dataset_revision": "revision of the text",
    "tokenizer": "tokenizer",
    "device": "device",
    "precision": "precision",
    "batch_size": "sequences at once",
    "seed": "seed",
    "seconds": "seconds per stage",
    "libraries": "libraries",
    "tool_version": "version of precompute",
    "schema_version": "version of the schema",
    "tokens_sha256": "SHA-256 of the token stream",
    "vocabulary_sha256": "SHA-256 of the vocabulary",
}


def spread(frame: pd.DataFrame, by: list[str], value: str, digits: int) -> pd.DataFrame:
    """A row for each value of the columns `by`, a column a checkpoint: the figure with its interval, and n where it is the same for all."""
    rows = frame.assign(shown=[interval(*figure, digits) for figure in zip(frame[value], frame[f"{value}_low"], frame[f"{value}_high"])])
    shown = rows.pivot(index=by, columns="checkpoint", values="shown").fillna("–")[list(dict.fromkeys(rows["checkpoint"]))]
    counts = rows.pivot(index=by, columns="checkpoint", values="n")
    if (counts.nunique(axis=1) == 1).all():
        shown.insert(0, "n", counts.max(axis=1).astype(int))
    else:
        shown = shown.join(counts.astype("Int64").add_prefix("n, "))
    return shown.reset_index().rename_axis(columns=None)


def rules(found: Sequence[Figures]) -> pd.DataFrame:
    """A row a checkpoint, rule and condition: its figure against its threshold."""
    rows = []
    for figures in found:
        judged = rulings.figures(figures)
        for rule in figures.rules:
            for condition in rule.conditions:
                figure = judged[condition.figure]
                rows.append(
                    {
                        "checkpoint": figures.checkpoint,
                        "rule": rule.name.replace("_", " "),
                        "verdict": VERDICTS[rule.verdict],
                        "figure": MEASURES[condition.figure],
                        "value": estimate(figure, 3),
                        "threshold": condition.threshold,
                        "distance": interval(condition.distance, float("nan"), float("nan"), 3),
                        "n": None if figure is None else int(figure.n),
                        "origin": rule.origin,
                    }
                )
    return pd.DataFrame(rows)


def checkpoints(study: Study, found: Report) -> pd.DataFrame:
    """A row a checkpoint of the file: what it is and its mean loss."""
    losses = {figures.checkpoint: estimate(figures.mean_loss[figures.policies.index("router")], 3) for figures in found.checkpoints}
    if study.reference:
        losses[study.reference] = estimate(found.reference_loss, 3)
    columns = {"layers_per_recursion": "layers per recursion", "training_tokens": "training tokens"}
    table = study.checkpoints[["checkpoint", "kind", "recursions", "layers_per_recursion", "parameters", "training_tokens", "name"]].rename(columns=columns)
    for column in table.columns[2:6]:
        table[column] = [count(number) for number in table[column]]
    table.insert(2, "mean loss, nats", table["checkpoint"].map(losses).fillna("–"))
    return table


def policies(study: Study) -> pd.DataFrame:
    """A row a policy: what it does, and a mark under each checkpoint that ran it."""
    ran = study.policies
    table = ran.drop_duplicates("policy")[["policy", "description"]].reset_index(drop=True)
    for checkpoint in study.observed:
        table[checkpoint] = table["policy"].isin(ran.loc[ran["checkpoint"] == checkpoint, "policy"]).map({True: "✓", False: ""})
    return table


def facts(meta: Mapping[str, str]) -> pd.DataFrame:
    """A row a fact of the build."""
    rows = [(words, str(meta[key])) for key, words in FACTS.items() if pd.notna(meta.get(key))]
    return pd.DataFrame(rows, columns=["fact", "value"])
