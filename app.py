"""Depthscope: `streamlit run app.py`, or `streamlit run app.py -- --db FILE`."""

from pages.parts import shell

shell.navigation().run()
