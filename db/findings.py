"""Prints what db.check finds in a file as one list of JSON. Started by the page About, for which the check is too long."""

import json
import os
import sys
from pathlib import Path

import duckdb

from db.check import findings
from db.limits import NICE


def main() -> None:
    os.nice(NICE)
    path = Path(sys.argv[1])
    try:
        found = list(findings(path))
    except duckdb.Error as error:
        found = [str(error).splitlines()[0].replace(f"{path.parent}/", "")]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
