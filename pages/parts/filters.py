"""The reader's one filter: drawn in the sidebar of every page, kept in the URL, told as a sentence and as SQL."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from db import conditions
from db.study import Study
from pages.parts import words
from pages.parts.answers import ask


@dataclass(frozen=True)
class Band:
    """A quantity with a lower and an upper end; its keys are <name>_from and <name>_to."""

    label: str
    column: str
    unit: str = ""
    step: float = 1
    difficult: bool = False  # known only where the file has a reference


BANDS = {
    "loss": Band("Vanilla loss, nats", "vanilla_loss", " nats", 0.1, True),
    "entropy": Band("Vanilla entropy, nats", "vanilla_entropy", " nats", 0.1, True),
    "loss_decile": Band("Decile of vanilla loss, 1 easiest", "loss_decile", "", 1, True),
    "entropy_decile": Band("Decile of vanilla entropy, 1 surest", "entropy_decile", "", 1, True),
    "occurrences": Band("Occurrences of the token", "occurrences", " times"),
    "position": Band("Position", "position"),
    "sequence": Band("Sequence", "sequence"),
}
MATCHES = {"contains": "contains", "word": "is", "regex": "matches", "id": "has id"}
EMPTY = {"checkpoints": [], "depths": [], "token": "", "match": "contains", "plain": False} | {f"{name}_{end}": None for name in BANDS for end in ("from", "to")}


def choose(study: Study) -> str | None:
    """The filter as an SQL condition on `observations`, None for all positions.

    Checkpoints are chosen here too, see `checkpoints`: they say whose figures are shown and are no part
    of the condition, for a figure is always that of one checkpoint.
    """
    with st.sidebar:
        told = st.container()
        with st.expander("Choose positions", icon=":material/filter_alt:"):
            where = _ask(study)
        with told:
            _tell(study, where)
    return where


def checkpoints(study: Study, among: list[str]) -> list[str]:
    """Those of the checkpoints that the reader has chosen in the sidebar; all where none is."""
    chosen = st.session_state.get("checkpoints") or []
    return [checkpoint for checkpoint in among if checkpoint in chosen] or among


def become(**parts: Any) -> None:
    """Sets parts of the filter, the keys of EMPTY: for callbacks, which run before the filter is drawn."""
    for key, value in parts.items():
        st.session_state[key] = value


def clear() -> None:
    """Back to all positions of all checkpoints."""
    become(**EMPTY)


# --- asked ------------------------------------------------------------------------------------


def _ask(study: Study) -> str | None:
    if len(study.observed) > 1:
        st.multiselect("Checkpoints", study.observed, key="checkpoints", bind="query-params", placeholder="all")
    token = _ask_token(study)
    depths = st.pills("Depth", range(1, _recursions(study) + 1), selection_mode="multi", key="depths", bind="query-params") if study.routed else []
    bands = {name: _ask_band(name, band) for name, band in BANDS.items() if study.reference or not band.difficult}
    plain = st.toggle("Leave special tokens out", key="plain", bind="query-params")
    return conditions.all_of(
        [
            token,
            conditions.one_of("depth", sorted(depths)),
            *(conditions.occurring(*ends) if name == "occurrences" else conditions.between(BANDS[name].column, *ends) for name, ends in bands.items()),
            conditions.without_special() if plain else None,
        ]
    )


def _ask_token(study: Study) -> str | None:
    matches = conditions.MATCHES if study.has_text else ("id",)
    match = st.radio("Token", matches, format_func=MATCHES.get, horizontal=True, key="match", bind="query-params")
    text = st.text_input("Token", key="token", bind="query-params", max_chars=conditions.TEXT, label_visibility="collapsed", placeholder="any")
    return conditions.token(match, text)


def _ask_band(name: str, band: Band) -> tuple[float | None, float | None]:
    st.markdown(band.label)
    least, hidden = type(band.step)(0), {"bind": "query-params", "label_visibility": "collapsed"}
    ends = zip(("from", "to"), st.columns(2))
    return tuple(
        column.number_input(f"{band.label}, {end}", least, value=None, step=band.step, key=f"{name}_{end}", placeholder=end, **hidden) for end, column in ends
    )


# --- told -------------------------------------------------------------------------------------


def _tell(study: Study, where: str | None) -> None:
    st.markdown(f"**Filter.** {sentence()} {_kept(study, where)}")
    if where is None and not st.session_state.get("checkpoints"):
        return
    st.button("Clear the filter", on_click=clear, icon=":material/filter_alt_off:", width="stretch")
    if where and study.is_range_restricted(where):
        st.caption("It selects by depth or difficulty itself, so correlations and R² within it are range restricted: weaker than in the whole text.")
    with st.expander("As SQL"):
        chosen = conditions.one_of("checkpoint", st.session_state.get("checkpoints") or [])
        st.code(f"select count(*) from observations\nwhere {conditions.all_of([chosen, where, 'next_token_id is not null'])}", "sql", wrap_lines=True)


def sentence() -> str:
    """The filter in words."""
    state = {key: st.session_state.get(key, empty) for key, empty in EMPTY.items()}
    parts = [f"depth {' or '.join(map(str, sorted(state['depths'])))}"] if state["depths"] else []
    if state["token"]:
        parts.append(f"a token that {MATCHES[state['match']]} “{words.literal(state['token'])}”")
    parts += [text for name, band in BANDS.items() if (text := _band_words(band, state[f"{name}_from"], state[f"{name}_to"]))]
    if state["plain"]:
        parts.append("no special tokens")
    positions = f"Positions with {', '.join(parts)}" if parts else "All positions"
    return positions + (f" of {', '.join(map(words.literal, state['checkpoints']))}." if state["checkpoints"] else ".")


def _band_words(band: Band, low: float | None, high: float | None) -> str:
    label = band.label.partition(",")[0].lower()
    if low is None and high is None:
        return ""
    if high is None:
        return f"{label} from {low:g}{band.unit}"
    return f"{label} up to {high:g}{band.unit}" if low is None else f"{label} {low:g} to {high:g}{band.unit}"


def _kept(study: Study, where: str | None) -> str:
    if where is None:
        return f"{study.counts['scored']:,} are scored."
    kept = ask(study, "kept", where).set_index("checkpoint")["scored"]
    found = [int(kept.get(checkpoint, 0)) for checkpoint in checkpoints(study, study.observed)]
    number = f"**{min(found):,}**" if min(found) == max(found) else f"**{min(found):,} to {max(found):,}** (by checkpoint)"
    return f"Keeps {number} of {study.counts['scored']:,} scored positions."


def _recursions(study: Study) -> int:
    return max(map(study.recursions, study.routed))
