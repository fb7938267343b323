"""Deciles."""
from pages.parts import shell

with shell.page("Is depth spent on difficult tokens?", "…") as study:
    pass
