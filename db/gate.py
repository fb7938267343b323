"""What a user may run: one SELECT or EXPLAIN, and conditions that are one expression."""

import duckdb

from db.errors import UserError

ALLOWED = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


def check_statement(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raises UserError unless `sql` is exactly one SELECT or EXPLAIN."""
    try:
        statements = cursor.extract_statements(sql)
    except duckdb.Error as error:
        raise UserError(str(error)) from error
    if len(statements) != 1:
        raise UserError(f"One statement at a time, not {len(statements)}." if statements else "There is no statement to run.")
    if statements[0].type not in ALLOWED:
        raise UserError(f"Only SELECT and EXPLAIN run here, not {statements[0].type.name}.")


def check_condition(cursor: duckdb.DuckDBPyConnection, where: str) -> None:
    """Raises UserError unless `where` is one expression.

    Text that closes the bracket it stands in, to go on with SQL of its own, cannot close both kinds.
    """
    for opening, closing in ("()", "[]"):
        try:
            check_statement(cursor, f"select {opening}{where}\n{closing}")
        except UserError as error:
            raise UserError(f"The filter {where!r} is not one SQL condition: {str(error).splitlines()[0]}") from error
