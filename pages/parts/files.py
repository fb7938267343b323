"""Which file is shown: the one named on the command line, or those in the folder db."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "db"


def named() -> Path | None:
    """FILE of `streamlit run app.py -- --db FILE`."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--db", type=Path)
    return parser.parse_known_args(sys.argv[1:])[0].db


def found() -> list[Path]:
    """The files to choose from: the named one alone, else every db/*.duckdb, the newest first."""
    if named():
        return [named()]
    files = [path for path in FOLDER.glob("*.duckdb") if not path.name.startswith(".")]
    return sorted(files, key=lambda path: (-path.stat().st_mtime_ns, path.name))
