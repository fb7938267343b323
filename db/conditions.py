"""The parts that a reader's filter is made of, each an SQL condition on `observations`; None where it asks for nothing.

What a reader types becomes a quoted text or a number here, never SQL.
"""

from collections.abc import Iterable

from db.errors import UserError

TEXT = 200  # characters of a token's text that may be asked for
MATCHES = ("contains", "word", "regex", "id")


def between(column: str, low: float | None, high: float | None) -> str | None:
    """Values of a column from `low` to `high`, both included; None leaves an end open."""
    if low is None and high is None:
        return None
    if high is None:
        return f"{column} >= {low!r}"
    return f"{column} <= {high!r}" if low is None else f"{column} between {low!r} and {high!r}"


def one_of(column: str, values: Iterable[str | int]) -> str | None:
    """Values of a column among those given; all where none is."""
    listed = ", ".join(map(_literal, values))
    return f"{column} in ({listed})" if listed else None


def occurring(low: int | None, high: int | None) -> str | None:
    """Tokens that occur in the file as often as asked."""
    return _of_tokens(between("occurrences", low, high))


def without_special() -> str:
    """Tokens that are text, not marks of control."""
    return _of_tokens("not is_special")


def token(match: str, text: str) -> str | None:
    """Tokens whose text `contains` this, is this `word` (spaces around it aside), or matches this `regex` (RE2); or those of these ids.

    RE2 takes time in proportion to the text, whatever the expression. Raises UserError for ids that are not numbers
    and for a text that is too long.
    """
    if not text:
        return None
    if len(text) > TEXT:
        raise UserError(f"A token's text to look for has at most {TEXT} characters, not {len(text)}.")
    if match == "id":
        return one_of("token_id", _ids(text))
    quoted = _literal(text)
    return _of_tokens({"contains": f"contains(token, {quoted})", "word": f"trim(token) = trim({quoted})", "regex": f"regexp_matches(token, {quoted})"}[match])


def all_of(conditions: Iterable[str | None]) -> str | None:
    """Positions that meet every condition; None where there is none."""
    return " and ".join(condition for condition in conditions if condition) or None


def _of_tokens(condition: str | None) -> str | None:
    return condition and f"token_id in (select token_id from vocab where {condition})"


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"Token ids are whole numbers with commas between them, not {text!r}.") from None


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
