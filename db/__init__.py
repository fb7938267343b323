"""Everything about the .duckdb file: its schema, its queries, its measures.

    import db
    study = db.open("db/demo.duckdb")
    study.deciles("expert-3", where="token_id <> 0")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from db.study import Study


def open(path: str) -> "Study":
    """The study in the file at `path`, read-only. Raises UserError where there is none to read."""
    from db.study import Study  # here, so that importing db.errors or db.schema loads no pandas

    return Study(path)
