"""Warnings that follow from the file and the filter, none written in beforehand. Analysis, measure 10."""

import pandas as pd

from db.intervals import NEEDED, RELIABLE


def cautions(checkpoints: pd.DataFrame, reported: list[str], sequences: int, restricted: bool) -> list[str]:
    """One sentence for each thing a reader of these checkpoints' figures should know."""
    rows = checkpoints.set_index("checkpoint").loc[reported]
    found = [
        *_about_difficulty(checkpoints),
        *_about_depth(rows),
        *_about_attention(rows),
    ]
    if sequences < NEEDED:
        found.append(f"Only {sequences} sequences: under {NEEDED} no interval is given.")
    elif sequences < RELIABLE:
        found.append(f"Only {sequences} sequences: under {RELIABLE} intervals are too narrow to be relied on.")
    if restricted:
        found.append("The filter truncates a variable that is correlated: correlations and R² are range restricted.")
    return found


def _about_difficulty(checkpoints: pd.DataFrame) -> list[str]:
    reference = checkpoints[checkpoints["is_reference"]]
    if reference.empty:
        return ["The file has no reference model: nothing here has a difficulty."]
    row = reference.iloc[0]
    size = f"{int(row['parameters']):,} parameters" if pd.notna(row["parameters"]) else "size unknown"
    training = f"{int(row['training_tokens']):,} training tokens" if pd.notna(row["training_tokens"]) else "training tokens unknown"
    return [f"Difficulty is that of {row['checkpoint']} ({row['name']}): {size}, {training}."]


def _about_depth(rows: pd.DataFrame) -> list[str]:
    found = []
    expert = rows[rows["kind"] == "expert"].index.tolist()
    if expert:
        found.append(
            f"Depth of {', '.join(expert)} is a rank within its sequence, not comparable across documents, and its selection sees future tokens."
        )
    blocks = rows["layers_per_recursion"].dropna()
    if blocks.nunique() > 1:
        sizes = ", ".join(f"{checkpoint} {int(layers)}" for checkpoint, layers in blocks.items())
        found.append(f"One depth is a block of different size: layers per recursion are {sizes}.")
    return found


def _about_attention(rows: pd.DataFrame) -> list[str]:
    apart = rows[rows["attention_shared"].eq(False).fillna(False)].index.tolist()
    return [f"{checkpoint} does not share attention weights between its recursions." for checkpoint in apart]
