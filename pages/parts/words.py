"""Sentences made from numbers. A direction is claimed only where the intervals lie apart."""

import pandas as pd

DIRECTIONS = {
    "up": "**Deeper** in the hardest tenth than in the easiest",
    "down": "**Shallower** in the hardest tenth than in the easiest",
    "neither": "**No clear difference** between the easiest tenth and the hardest",
}
NEEDED = {"no": 10, "unreliable": 30}  # sequences: below these there is no interval, or an unreliable one


def depth_by_decile(frame: pd.DataFrame) -> str:
    """Which checkpoints go deeper from the easiest tenth to the hardest. `frame`: answers.deciles."""
    said: dict[str, list[str]] = {direction: [] for direction in DIRECTIONS}
    for checkpoint, rows in frame.groupby("checkpoint", sort=False):
        first, last = rows.iloc[0], rows.iloc[-1]
        said[_direction(first, last)].append(f"{checkpoint} (mean depth {first.mean_depth:.2f} → {last.mean_depth:.2f})")
    return " ".join(f"{DIRECTIONS[direction]}: {', '.join(who)}." for direction, who in said.items() if who)


def benefit_by_decile(frame: pd.DataFrame, benefit: str, by: str) -> str:
    """Where depth pays most, checkpoint by checkpoint. `benefit`: the column of `frame` that is shown."""
    parts = []
    for checkpoint, rows in frame.dropna(subset=[benefit]).groupby("checkpoint", sort=False):
        peak, last = rows.loc[rows[benefit].idxmax()], rows.iloc[-1]
        parts.append(f"{checkpoint} {nats(peak[benefit])} in decile {peak.decile}, {nats(last[benefit])} in decile 10")
    return f"By {by}, depth pays most at: {'; '.join(parts)}." if parts else "No checkpoint here was run at depth 1 and at full depth."


def interval(value: float, low: float, high: float, digits: int) -> str:
    """A figure with its interval: 1.45 [1.44, 1.46]."""
    if pd.isna(value):
        return "–"
    return f"{value:.{digits}f}" + ("" if pd.isna(low) else f" [{low:.{digits}f}, {high:.{digits}f}]")


def about_intervals(sequences: int) -> str:
    """What the intervals are, and how far to trust them with so many sequences."""
    if sequences < NEEDED["no"]:
        return f"No intervals: {sequences} sequences are fewer than {NEEDED['no']}."
    caution = f", unreliable with fewer than {NEEDED['unreliable']}" if sequences < NEEDED["unreliable"] else ""
    return f"95% intervals: bootstrap over {sequences:,} sequences{caution}."


def nats(value: float) -> str:
    """A difference of losses: +0.29 nats."""
    return f"{value:+.2f} nats".replace("-", "−")


def plain(text: str) -> str:
    """The same without marks of emphasis, for an alternative text."""
    return text.replace("**", "")


def _direction(first: pd.Series, last: pd.Series) -> str:
    if last.mean_depth_low > first.mean_depth_high:
        return "up"
    return "down" if last.mean_depth_high < first.mean_depth_low else "neither"
