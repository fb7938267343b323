"""About the data: what every column means, whether the file is whole, how it was made, how to cite it."""

import json

import streamlit as st

from db.errors import UserError
from db.study import Study
from pages.parts import about, dictionary, shell, tables, words, work

TITLE = "What is in this file, and can it be trusted?"
QUESTION = (
    "All numbers come from one DuckDB file that any client opens. Here is what its columns mean, whether it is still "
    "what was written, how it was made, and how to cite it."
)
CHECKS = """
The check reads every row. It holds tables, types and comments to the schema; keys, next tokens, deciles and documents to
the text; NULLs and ranges to the policies that were run; counts of depths to the capacities; margins to the probabilities;
stored sums and correlations to the rows they are made of; and every table to the digest that was written with it, by
which any altered value is found. On a large file it takes minutes.
"""
WHOLE = "The file keeps its contract, and nothing in it was altered after it was written."
CITE = "Name the file by its hashes, so that others can tell whether they look at the same one, and the paper whose models these are:"
HEIGHT = 640


def show_check(study: Study) -> None:
    st.markdown(CHECKS)
    begun = about.check(study)
    if begun and not work.finished(begun, about.CHECK_SECONDS):
        return
    if begun:
        show_findings(begun)
    st.button("Check it again" if begun else "Check the file", on_click=about.begin, args=[study], icon=":material/fact_check:")


def show_findings(done: work.Work) -> None:
    try:
        findings = done.result()
    except UserError as error:
        st.info(words.literal(str(error)), icon=":material/info:")
        return
    if not findings:
        st.success(WHOLE, icon=":material/check_circle:")
    for finding in findings:
        st.error(words.literal(finding), icon=":material/error:")


def show_making(study: Study) -> None:
    st.dataframe(tables.facts(study.meta), hide_index=True, height="content")
    if configuration := study.meta.get("configuration"):
        with st.expander("The whole configuration of the run"):
            st.json(json.loads(configuration), expanded=2)


with shell.page(TITLE, QUESTION) as study:
    st.markdown(words.contents(study))
    st.header("What every column means", anchor=False)
    dictionary.show(study, HEIGHT)
    st.header("Is it still what was written?", anchor=False)
    show_check(study)
    st.header("How it was made", anchor=False)
    show_making(study)
    st.header("How to cite it", anchor=False)
    st.markdown(CITE)
    st.code(about.citation(study), None, wrap_lines=True)
    st.code(about.PAPER, "bibtex", wrap_lines=True)
