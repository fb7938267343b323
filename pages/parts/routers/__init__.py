"""The two kinds of router drawn on nine tokens: each cell a token that a recursion processes."""

from pathlib import Path

import streamlit as st

from pages.parts.colours import ordinal

TOKENS = "The old cat sat by the big red box".split()
EXPERT = (1, 2, 3, 2, 1, 1, 2, 3, 3)  # depths: six of nine are kept, then three of six
TOKEN = (1, 2, 3, 2, 1, 1, 3, 2, 3)
RECURSIONS = 3
WORDS = {
    "expert": (
        "Expert-choice: each recursion chooses its tokens",
        "Recursion 2 compares all nine tokens and keeps the six it scores highest, recursion 3 keeps three of these. "
        "Whether <b>cat</b> goes on depends on <b>box</b>, which comes later: the future is visible to the choice.",
    ),
    "token": (
        "Token-choice: each token chooses its recursions",
        "Before the first recursion every token is given its depth by itself, from what stands before it alone. "
        "How many tokens reach a recursion is left open.",
    ),
}


def show() -> None:
    """Both drawings, side by side where there is room."""
    _mount(key="routers")


def _panel(kind: str, depths: tuple[int, ...]) -> str:
    title, text = WORDS[kind]
    rows = "".join(_row(recursion, depths) for recursion in range(1, RECURSIONS + 1))
    total = "".join(f"<td>{depth}</td>" for depth in depths)
    return f"""
        <figure class="{kind}">
          <figcaption><b>{title}</b></figcaption>
          <table>
            <thead><tr><td></td>{''.join(f'<th scope="col">{token}</th>' for token in TOKENS)}</tr></thead>
            <tbody>{rows}</tbody>
            <tfoot><tr><th scope="row">depth</th>{total}</tr></tfoot>
          </table>
          <p>{text}</p>
        </figure>"""


def _row(recursion: int, depths: tuple[int, ...]) -> str:
    cells = "".join(
        f'<td><span class="in level-{recursion}" aria-label="processed">✓</span></td>' if depth >= recursion else '<td><span aria-label="not processed">·</span></td>'
        for depth in depths
    )
    return f'<tr><th scope="row">recursion {recursion}</th>{cells}</tr>'


def _paints() -> str:
    return "\n".join(
        f".level-{level} {{ background: light-dark({paint.light}, {paint.dark}); color: light-dark({paint.ink_light}, {paint.ink_dark}); }}"
        for level, paint in enumerate(ordinal(RECURSIONS), 1)
    )


_mount = st.components.v2.component(
    "depthscope_routers",
    html=f'<div class="routers">{_panel("expert", EXPERT)}{_panel("token", TOKEN)}</div>',
    css=(Path(__file__).parent / "routers.css").read_text(encoding="utf-8") + _paints(),
)
