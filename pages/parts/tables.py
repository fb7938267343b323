"""Tables: functions from a frame to the frame that is shown under a chart, its figures as text."""

import pandas as pd

from pages.parts.words import interval


def by_decile(frame: pd.DataFrame, value: str, digits: int) -> pd.DataFrame:
    """A row a decile, a column a checkpoint: the figure with its interval. `frame`: answers.deciles."""
    table = pd.DataFrame({"decile": range(1, 11)})
    for checkpoint, rows in frame.groupby("checkpoint", sort=False):
        table["n"] = rows["n"].to_numpy()
        figures = zip(rows[value], rows[f"{value}_low"], rows[f"{value}_high"])
        table[checkpoint] = [interval(*figure, digits) for figure in figures]
    return table
