"""Tables: functions from a frame to the frame that is shown under a chart, its figures as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from db.checks import Checks
from db.intervals import Estimate
from db.rules import THRESHOLDS, Rule
from db.study import Study
from pages.parts.words import MEASURES, count, estimate, interval

VERDICTS = {True: "yes", False: "no", None: "undecided"}
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


def checks(found: Sequence[Checks], thresholds: Mapping[str, float]) -> pd.DataFrame:
    """A row a checkpoint, rule and condition: its figure, with low and high, against its threshold. `moved` where that is none of the study's."""
    return pd.DataFrame([row for each in found for rule in each.rules(thresholds) for row in _conditions(each, rule)])


def _conditions(checks: Checks, rule: Rule) -> Iterator[dict[str, Any]]:
    for condition in rule.conditions:
        found = checks.figures[condition.figure]
        yield {
            "checkpoint": checks.checkpoint,
            "rule": rule.name.replace("_", " "),
            "verdict": VERDICTS[rule.verdict],
            "figure": MEASURES[condition.figure],
            "value": condition.value,
            "low": float("nan") if found is None else float(found.low),
            "high": float("nan") if found is None else float(found.high),
            "threshold": condition.threshold,
            "moved": condition.threshold != THRESHOLDS[condition.figure],
            "distance": condition.distance,
            "n": None if found is None else int(found.n),
            "origin": rule.origin,
        }


def checks_shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The same as text: the figure with its interval, three decimals."""
    shown = frame.drop(columns=["low", "high", "moved"])
    shown["value"] = [interval(*figure, 3) for figure in zip(frame["value"], frame["low"], frame["high"])]
    shown["threshold"] = [f"{limit:.3f}{', moved' if moved else ''}" for limit, moved in zip(frame["threshold"], frame["moved"])]
    shown["distance"] = [interval(distance, float("nan"), float("nan"), 3) for distance in frame["distance"]]
    return shown


def checkpoints(study: Study, losses: Mapping[str, Estimate]) -> pd.DataFrame:
    """A row a checkpoint of the file: what it is and its mean loss."""
    columns = {"layers_per_recursion": "layers per recursion", "training_tokens": "training tokens"}
    table = study.checkpoints[["checkpoint", "kind", "recursions", "layers_per_recursion", "parameters", "training_tokens", "name"]].rename(columns=columns)
    for column in table.columns[2:6]:
        table[column] = [count(number) for number in table[column]]
    table.insert(2, "mean loss, nats", [estimate(losses.get(checkpoint), 3) for checkpoint in table["checkpoint"]])
    return table


def published(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a published number beside the file's own. `frame`: published.beside."""
    own = [interval(*figure, 3) for figure in zip(frame["value"], frame["low"], frame["high"])]
    return frame.assign(value=own, difference=frame["difference"].round(4))[["checkpoint", "label", "value", "n", "published", "difference", "source"]]


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
