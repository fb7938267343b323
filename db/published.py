"""Numbers published for the real checkpoints, to stand beside a file's own where they measure the same thing."""

from functools import cache
from pathlib import Path

import pandas as pd

from db.file import File

SOURCES = {
    "analysis": "the analysis of 1,000 × 2,048 tokens",
    "paper": "MoR paper (arXiv 2507.10524), Table 3; its script reads 500 sequences",
}
_STEM = "250720_pretrain_smollm-360m_"
_EXPERT = "_middle_cycle_random_lr3e-3_mor_expert_linear_alpha_0.1_sigmoid_aux_loss_0.001"
EXPERIMENTS = {
    "vanilla": f"{_STEM}vanilla_lr3e-3",
    "expert-2": f"{_STEM}rec2{_EXPERT}",
    "expert-3": f"{_STEM}rec3{_EXPERT}",
    "expert-4": f"{_STEM}rec4{_EXPERT}",
    "token-3": f"{_STEM}rec3_middle_cycle_random_lr3e-3_mor_token_softmax_bal_loss_coeff_0.1_linear_zloss_1e-5",
}
DATASET = "kimyuji/fineweb-test"
TOKENIZER, VOCABULARY = "HuggingFaceTB/SmolLM-135M", 49_152
SEQUENCES, LENGTH = 1_000, 2_048


@cache
def numbers() -> pd.DataFrame:
    """One row is a published number: name (of the experiment), figure, value, highest, source.

    `highest` ends a range given for several checkpoints together; without a value it is an upper bound.
    """
    frame = pd.read_csv(Path(__file__).with_suffix(".csv"))
    return frame.assign(name=frame["name"].map(EXPERIMENTS), source=frame["source"].map(SOURCES))


def why_not(file: File, where: str | None) -> str | None:
    """Why published numbers do not apply to this file, in one line; None where they do."""
    counts, meta = file.counts, file.meta
    if not set(file.checkpoints["name"]) & set(EXPERIMENTS.values()):
        return "none of the file's checkpoints is one that numbers were published for"
    if not (meta.get("dataset") or "").startswith(DATASET):
        return f"the data set is {meta.get('dataset')}, not {DATASET}"
    if meta.get("tokenizer") != TOKENIZER or file.vocabulary_size != VOCABULARY:
        return f"the tokenizer is {meta.get('tokenizer')} with {file.vocabulary_size:,} entries, not {TOKENIZER} with {VOCABULARY:,}"
    if (counts["sequences"], counts["positions"]) != (SEQUENCES, SEQUENCES * LENGTH):
        return f"the file holds {counts['sequences']:,} sequences of up to {counts['longest']:,} tokens, not {SEQUENCES:,} of {LENGTH:,}"
    return "a filter is set" if where else None


def beside(lines: pd.DataFrame, checkpoints: pd.DataFrame) -> pd.DataFrame:
    """The report's lines that a number was published for: with `published`, `difference` and `source`.

    difference: own value less the published one; from the nearer end of a range, 0 inside it.
    """
    named = lines.merge(checkpoints[["checkpoint", "name"]], on="checkpoint")
    frame = named.merge(numbers(), on=["name", "figure"], suffixes=("", "_published"))
    lowest, highest = frame["value_published"], frame["highest"].fillna(frame["value_published"])
    below, above = (frame["value"] - lowest).clip(upper=0).fillna(0), (frame["value"] - highest).clip(lower=0)
    frame["published"] = [_worded(low, high) for low, high in zip(lowest, frame["highest"])]
    frame["difference"] = (below + above).where(frame["value"].notna())
    return frame[["measure", "figure", "label", "checkpoint", "value", "low", "high", "n", "published", "difference", "source"]]


def _worded(low: float, high: float) -> str:
    if pd.isna(low):
        return f"below {high:g}"
    return f"{low:g}" if pd.isna(high) else f"{low:g} to {high:g}"
