"""Overview."""
import streamlit as st
from pages.parts import routers, shell

with shell.page("Is depth spent on difficult tokens?", "…") as study:
    st.header("What depth is", anchor=False)
    routers.show()
