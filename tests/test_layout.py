"""Data flows one way, and the README tells the truth about the command line and the tree."""

import ast
import re
from pathlib import Path

import pytest

from precompute.command import _parser

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def imported(folder):
    """(file, module) for every import under a folder or of a file."""
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from ((path.relative_to(ROOT).as_posix(), name.split(".")[0]) for name in names)


@pytest.mark.parametrize(("folder", "forbidden"), [
    ("precompute", {"streamlit", "altair", "pages"}),
    ("pages", {"torch", "transformers", "precompute"}),
    ("db", {"torch", "transformers", "streamlit", "precompute", "pages"}),
    ("app.py", {"torch", "transformers", "precompute", "db"}),
])
def test_data_flows_one_way(folder, forbidden):
    assert [(path, module) for path, module in imported(ROOT / folder) if module in forbidden] == []


def test_every_option_and_command_is_in_the_readme():
    commands = next(action for action in _parser()._actions if hasattr(action, "choices") and action.choices).choices
    for name, command in commands.items():
        assert f"python -m precompute {name}" in README, name
    options = {option for action in commands["run"]._actions for option in action.option_strings if option.startswith("--") and option != "--help"}
    assert {option for option in options if option not in README} == set()


def test_every_file_of_the_tree_in_the_readme_exists():
    tree = README.split("## The code")[1].split("```")[1]
    folder = ROOT
    for line in tree.strip().splitlines():
        indented, names = line.startswith("  "), re.split(r"\s{3,}|\s(?=[a-z]+ [a-z])", line.strip())[0]
        if not indented:
            folder = ROOT
        for name in re.findall(r"[\w.]+(?:\.\w+|/)", names):
            assert (folder / name).exists(), f"{folder.name}/{name}"
        if not indented and names.endswith("/"):
            folder = ROOT / names


def test_the_top_level_holds_what_it_should():
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".") and path.name != "__pycache__"}
    assert found == {"app.py", "pages", "precompute", "db", "tests", "requirements.txt", "README.md", "LICENSE"}
