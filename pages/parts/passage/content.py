"""What the component is given: plain lists and texts, made from the frame of one passage."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pages.parts.passage.scales import Scale

DIGITS = 4
POLICY_WORDS = {"router": "router, as trained", "router_depths": "router's depths again"}


def content(
    frame: pd.DataFrame,
    scale: Scale | None,
    *,
    build: str,
    checkpoint: str,
    sequence: int,
    recursions: int,
    policies: Sequence[str],
    beside: Mapping[str, Scale | None] | None = None,
    found: Sequence[int] = (),
    passing: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The component's data. Where `build` changes the text is laid out anew, else only recoloured.

    `frame` has a row a position, in order: the columns of `observations`, `token`, `is_special` and
    `loss_percentile` (of the vanilla loss in the file). `beside`: the scale of the same quantity under
    other checkpoints, a row of marks each. `found`: positions to point out. `passing`: positions that
    are not faded, None for all.
    """
    return {
        "build": build,
        "label": f"Tokens of sequence {sequence}",
        "tokens": _tokens(frame),
        "levels": scale.levels.tolist() if scale else [],
        "scale": _steps(scale) if scale else [],
        "beside": [
            {"checkpoint": checkpoint, "levels": other.levels.tolist(), "scale": _steps(other)} for checkpoint, other in (beside or {}).items() if other
        ],
        "found": list(found),
        "passing": None if passing is None else list(passing),
        "card": _card(frame, sequence, recursions, policies) | {"checkpoint": checkpoint},
    }


def places(frame: pd.DataFrame, text: str) -> list[int]:
    """Positions whose tokens take part in an occurrence of `text` in the running text, capitals aside."""
    tokens = _tokens(frame)["text"]
    starts = np.cumsum([0, *map(len, tokens)])
    running, sought = "".join(tokens).lower(), text.lower()
    if not sought or len(running) != starts[-1]:  # a capital whose small letter is longer would shift all that follows
        return []
    at = [match.start() for match in re.finditer(re.escape(sought), running)]
    spans = ((np.searchsorted(starts, start, "right") - 1, np.searchsorted(starts, start + len(sought), "left")) for start in at)
    return sorted({int(position) for first, end in spans for position in range(first, end)})


def policy_words(policy: str) -> str:
    """A policy, its gate left aside, as a reader would say it."""
    depth = policy.removeprefix("depth_")
    return f"depth {depth} everywhere" if depth.isdigit() else POLICY_WORDS.get(policy, policy)


def _tokens(frame: pd.DataFrame) -> dict[str, list]:
    known = frame["token"].notna()
    text = frame["token"].where(known, frame["token_id"].astype(str))
    mark = pd.Series("", index=frame.index).mask(~known, "id").mask(frame["is_special"], "mark")
    document = frame["document"]
    ends = document.notna() & document.shift(-1).notna() & (document != document.shift(-1))
    return {"text": text.tolist(), "mark": mark.tolist(), "ends": [i for i, end in enumerate(ends) if end]}


def _steps(scale: Scale) -> list[dict[str, Any]]:
    counts = scale.counts()
    total = sum(counts)
    return [
        {
            "label": step.label,
            "short": str(level),
            "share": count / max(1, total),
            "count": f"{count:,}",
            "lines": step.lines,
            "dotted": step.dotted,
            "light": step.paint.light,
            "dark": step.paint.dark,
            "ink_light": step.paint.ink_light,
            "ink_dark": step.paint.ink_dark,
        }
        for level, (step, count) in enumerate(zip(scale.steps, counts), 1)
    ]


def _card(frame: pd.DataFrame, sequence: int, recursions: int, policies: Sequence[str]) -> dict[str, Any]:
    single = ["token_id", "depth", "vanilla_loss", "loss_percentile", "vanilla_entropy", "entropy", "benefit"]
    return {
        "sequence": sequence,
        "recursions": recursions,
        **{name: _values(frame, name) for name in single},
        "probabilities": [_values(frame, f"probability_{r}") for r in range(1, recursions + 1)],
        "policies": [
            {"label": policy_words(policy), "loss": _values(frame, f"loss_{policy}"), "open": _values(frame, f"loss_{policy}_open")}
            for policy in dict.fromkeys(name.removesuffix("_open") for name in policies)
        ],
    }


def _values(frame: pd.DataFrame, column: str) -> list[float | int | None] | None:
    """A column as JSON can carry it: rounded, None where it is NULL; None where there is no such column."""
    if column not in frame:
        return None
    values = frame[column]
    if pd.api.types.is_float_dtype(values):
        values = values.astype(float).round(DIGITS)
    return values.astype(object).where(values.notna(), None).tolist()
