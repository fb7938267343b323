"""The command line of db: report, sql, bench.

An error of the user's is one sentence on stderr and exit code 2.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import db
from db import bench, connection, limits, sql, terminal
from db.errors import UserError
from db.report import report

FILTERED_SECONDS = 10 * limits.SECONDS  # a whole report under a filter, once the filter alone kept to its limits


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, or 2 for unusable input."""
    given = sys.argv[1:] if arguments is None else arguments
    args = _parser().parse_args(given)
    try:
        return args.command(args, given)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m db", description="The numbers of a study, from its DuckDB file.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("report", help="print every measure with its interval")
    one.add_argument("file", metavar="FILE")
    one.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    one.add_argument("--checkpoint", metavar="ID", action="append", help="only this checkpoint; may be repeated")
    one.add_argument("--where", metavar="CONDITION", help="SQL condition on observations")
    one.add_argument("--threads", metavar="N", type=int, help="threads of DuckDB; the answers do not depend on it")
    one.add_argument("--confined", action="store_true", help=argparse.SUPPRESS)
    one.set_defaults(command=_report)
    one = commands.add_parser("sql", help="run one SELECT and print its rows")
    one.add_argument("file", metavar="FILE")
    one.add_argument("statement", metavar="SELECT")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="CSV instead of a table")
    form.add_argument("--parquet", metavar="OUT", type=Path, help="write the rows to this file")
    one.add_argument("--rows", metavar="N", type=int, default=sql.ROWS, help="most rows to give, default %(default)s")
    one.add_argument("--seconds", metavar="S", type=float, default=limits.SECONDS, help="time limit, default %(default)s")
    one.set_defaults(command=_sql)
    one = commands.add_parser("bench", help="time every named question beside pandas")
    one.add_argument("file", metavar="FILE")
    one.add_argument("--threads", metavar="N", type=int, default=2, help="threads of DuckDB, default %(default)s")
    one.set_defaults(command=_bench)
    return parser


def _report(args: argparse.Namespace, given: list[str]) -> int:
    if args.threads:
        connection.set_threads(args.threads)
    if args.where and not args.confined:
        return _filtered_report(args, given)
    if args.confined:
        limits.confine()
    found = report(db.open(args.file), args.checkpoint, args.where, in_full=not args.json)
    print(json.dumps(found.as_json(), allow_nan=False, ensure_ascii=False) if args.json else terminal.text(found))
    return 0


def _filtered_report(args: argparse.Namespace, given: list[str]) -> int:
    """The filter is a user's text: it is tried alone under the limits of sql, then the report runs in a child of its own.

    Nothing here may evaluate it: even binding it computes its constants.
    """
    study = db.open(args.file)
    for checkpoint in args.checkpoint or []:
        study.checkpoint(checkpoint)
    study.check_condition(args.where)
    try:
        sql.run(args.file, f"select count(*) from observations where (\n{args.where}\n)")
    except UserError as error:
        raise UserError(f"The filter {args.where!r} does not run: {str(error).splitlines()[0]}") from error
    code, _ = limits.Child("db", [*given, "--confined"], is_piped=False).result(seconds=FILTERED_SECONDS)
    if code not in (0, 2):
        raise UserError(f"The report under the filter {args.where!r} needs more memory than it may use.")
    return code


def _sql(args: argparse.Namespace, given: list[str]) -> int:
    db.open(args.file)  # says what is wrong with the file before a child does
    found = sql.run(args.file, args.statement, args.rows, args.seconds)
    if args.parquet:
        _write_parquet(found.table, args.parquet)
    elif args.csv:
        pa.csv.write_csv(found.table, sys.stdout.buffer)
    else:
        print(_shown(found.table))
    if found.is_truncated:
        print(f"Only the first {found.table.num_rows:,} rows; --rows N gives more.", file=sys.stderr)
    return 0


def _write_parquet(table: pa.Table, path: Path) -> None:
    aside = path.with_name(f".{path.name}.writing")
    try:
        pa.parquet.write_table(table, aside)
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {os.strerror(error.errno) if error.errno else error}.") from error
    finally:
        aside.unlink(missing_ok=True)
    print(path)


def _shown(found: pa.Table) -> str:
    rows = [["NULL" if value is None else str(value) for value in row.values()] for row in found.to_pylist()]
    return terminal.table(found.column_names, rows) + f"\n({len(rows):,} rows)"


def _bench(args: argparse.Namespace, given: list[str]) -> int:
    print(bench.text(bench.bench(args.file, args.threads)))
    return 0
