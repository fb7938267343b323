"""What stands on every page while there is no file: what Depthscope is, and the demo at one click."""

import streamlit as st

from pages.parts import demo, files, words

WELCOME = """
A **Mixture-of-Recursions** model sends some tokens through its shared block of layers more often than
others. How often is the token's **depth**. Depthscope shows which tokens get which depth in a file of
measurements, whether difficult tokens are the deep ones, and what depth buys.

There is no such file in the folder `db` yet.
"""
OFFER = """
The demo runs five tiny models, trained on encyclopedia text, over text that they have never seen. It takes
a few minutes and stays on this computer.
"""
OWN = """
For checkpoints of your own, `python -m precompute run --help` says what is needed;
`streamlit run app.py -- --db FILE` opens a file that lies elsewhere.
"""


def show() -> None:
    """The welcome, with the demo's progress once it is being built."""
    st.title("Depthscope", anchor=False)
    st.markdown(WELCOME)
    with st.container(border=True):
        st.markdown(OFFER)
        _build()
    st.markdown(OWN)


@st.fragment(run_every=0.5)
def _build() -> None:
    build = demo.current()
    if build is None or build.failure:
        if build:
            st.error(words.literal(build.failure), icon=":material/error:")
        if st.button("Build the demo", type="primary"):
            demo.start()
            st.rerun(scope="fragment")
    elif build.running:
        progress = build.progress()
        st.progress(progress.share, text=progress.text)
    elif files.found():
        st.rerun()
