"""The facts and the rows of one version of a file, as frames."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from db import connection, query
from db.errors import UserError
from db.filter import Filter
from db.gate import check_condition
from db.schema import policy_names


class File:
    """One version of a file, opened read-only. Answers never mix two versions.

    Methods raise UserError for an unknown checkpoint, a filter that does not run, a file replaced
    since it was opened, or a damaged one.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self._database = connection.database(path)
        self.signature = self._database.signature()
        self._running: set[duckdb.DuckDBPyConnection] = set()

    def stop(self) -> None:
        """Interrupt every query this study is running, from another thread."""
        for cursor in list(self._running):
            cursor.interrupt()

    def close(self) -> None:
        """Let go of the file, so that this process may open it in another way; the next question opens it again."""
        self._database.close()

    @property
    def running(self) -> bool:
        """Whether a query of this object runs now."""
        return bool(self._running)

    # --- facts of the file -------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, str]:
        """The facts of the build."""
        return dict(self._remembered("meta").itertuples(index=False))

    @property
    def checkpoints(self) -> pd.DataFrame:
        """One row is a checkpoint, the reference first; `is_observed` tells whether it has observations."""
        return self._remembered("checkpoints")

    @property
    def policies(self) -> pd.DataFrame:
        """One row is a policy run for a checkpoint."""
        return self._remembered("policies")

    @property
    def sequences(self) -> pd.DataFrame:
        """One row is a sequence: its number, length and how many documents begin in it."""
        return self._remembered("sequences")

    @property
    def dictionary(self) -> pd.DataFrame:
        """One row is a table (column_name is empty) or a column, with its comment."""
        return self._remembered("dictionary")

    @property
    def counts(self) -> dict[str, int]:
        """sequences, positions, scored, documents (None where unknown) and the longest sequence."""
        row = self._remembered("counts").iloc[0]
        return {name: None if pd.isna(value) else int(value) for name, value in row.items()}

    @cached_property
    def reference(self) -> str | None:
        """Id of the checkpoint whose losses are the difficulty, if the file has one."""
        return next((row.checkpoint for row in self.checkpoints.itertuples() if row.is_reference), None)

    @cached_property
    def observed(self) -> list[str]:
        """Ids of the checkpoints with observations."""
        return [row.checkpoint for row in self.checkpoints.itertuples() if row.is_observed]

    @cached_property
    def routed(self) -> list[str]:
        """Ids of the observed checkpoints whose tokens have depths that differ."""
        return [row.checkpoint for row in self.checkpoints.itertuples() if row.is_observed and row.kind not in ("vanilla", "recursive")]

    def checkpoint(self, checkpoint: str) -> pd.Series:
        """The row of `checkpoints` of an observed checkpoint. Raises UserError for any other id."""
        if checkpoint not in self.observed:
            raise UserError(f"{self.name} has no observations of checkpoint {checkpoint!r}; it has {', '.join(self.observed) or 'none'}.")
        return self.checkpoints.iloc[self.checkpoints["checkpoint"].tolist().index(checkpoint)]

    def recursions(self, checkpoint: str) -> int:
        """Its number of recursions R, 1 for vanilla."""
        recursions = self.checkpoint(checkpoint)["recursions"]
        return 1 if pd.isna(recursions) else int(recursions)

    def policies_of(self, checkpoint: str) -> list[str]:
        """Names of the policies run for a checkpoint."""
        return self.policies.loc[self.policies["checkpoint"] == checkpoint, "policy"].tolist()

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._database.path

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return self._database.name

    @property
    def vocabulary_size(self) -> int:
        """How many token ids the file knows."""
        return len(self._remembered("token_text"))

    @property
    def has_text(self) -> bool:
        """Whether its token ids have text."""
        return bool(self._remembered("token_text")["token"].notna().any())

    @property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return self._database.remember(self.signature, "sha256", self._hash)

    def _hash(self) -> str:
        with self._database.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    # --- one sequence ------------------------------------------------------------------------

    def passage(self, checkpoint: str, sequence: int) -> pd.DataFrame:
        """One row is a position of a sequence, in order.

        position, document, token_id, token, is_special, next_token_id, next_token, vanilla_loss,
        loss_percentile (share of the file's scored positions with a loss at most this, 0 to 100),
        vanilla_entropy, loss_decile, entropy_decile, depth, entropy, benefit, benefit_open, and for
        the policies and recursions of the checkpoint loss_<policy>, depth_<policy>, probability_<r>,
        margin_<r>. Missing values: NULL rules of the schema. Raises UserError for an unknown sequence.
        """
        frame = self.frame("passage", checkpoint=checkpoint, sequence=int(sequence), columns=self._passage_columns(checkpoint))
        if frame.empty:
            raise UserError(f"{self.name} has no sequence {sequence}; it has {self.counts['sequences']}, numbered from 0.")
        for name in frame.columns.intersection(["document", "next_token_id", "loss_decile", "entropy_decile"]):
            frame[name] = frame[name].astype("Int32")
        losses = self._sorted_losses()
        percentile = np.searchsorted(losses, frame["vanilla_loss"].to_numpy(), side="right") * 100.0 / max(len(losses), 1)
        frame.insert(frame.columns.get_loc("vanilla_loss") + 1, "loss_percentile", np.where(frame["vanilla_loss"].isna(), np.nan, percentile))
        return frame

    def passing(self, checkpoint: str, sequence: int, where: str) -> list[int]:
        """Positions of a sequence that pass the filter, in order."""
        return self.frame("passing", where, checkpoint=checkpoint, sequence=int(sequence))["position"].tolist()

    def passage_statement(self, checkpoint: str, sequence: int) -> str:
        """The rows of `passage` as one statement for any client."""
        return self.statement("passage", checkpoint=checkpoint, sequence=int(sequence), columns=self._passage_columns(checkpoint))

    def _passage_columns(self, checkpoint: str) -> list[str]:
        policies, recursions = self.policies_of(checkpoint), range(1, self.recursions(checkpoint) + 1)
        fixed = ["vanilla_loss", "vanilla_entropy", "loss_decile", "entropy_decile", "depth", "entropy", "benefit", "benefit_open"]
        return fixed + [f"{what}_{name}" for what in ("loss", "depth") for name in policies] + [
            f"{what}_{recursion}" for what in ("probability", "margin") for recursion in recursions
        ]

    # --- filters ---------------------------------------------------------------------------------

    def check_condition(self, where: str) -> None:
        """Raises UserError unless `where` is one SQL expression; it is parsed, not run."""
        with self._cursor(where) as cursor:
            check_condition(cursor, where)

    def is_range_restricted(self, where: str | None) -> bool:
        """Whether the filter truncates depth, loss, entropy, benefit or what follows from them."""
        if where is None:
            return False
        with self._cursor(where) as cursor:
            return Filter(where).is_range_restricted(cursor)

    def tells_checkpoints_apart(self, where: str) -> bool:
        """Whether the filter may keep other positions of one checkpoint than of another."""
        with self._cursor(where) as cursor:
            return Filter(where).tells_checkpoints_apart(cursor)

    # --- queries -----------------------------------------------------------------------------

    def frame(self, name: str, where: str | None = None, within: bool = False, **parameters) -> pd.DataFrame:
        """Rows of a named query, over the observations that pass the filter. Raises ValueError for a filter on one that reads stored sums."""
        is_filtered = query.named()[name].is_filtered
        if (where or within) and not is_filtered:
            raise ValueError(f"The query {name} cannot be filtered.")
        if not is_filtered:
            with self._cursor(None) as cursor:
                return query.run(cursor, name, **parameters)
        with self._kept(where, parameters.get("checkpoint"), within) as cursor:
            return query.run(cursor, name, **parameters)

    def statement(self, name: str, where: str | None = None, within: bool = False, **parameters: str | int | list[str]) -> str:
        """The same query as one statement for any client, its views and parameters written out."""
        return query.statement(name, Filter(where, within), **parameters)

    @contextmanager
    def _kept(self, where: str | None, checkpoint: str | None, within: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor with the views that a filter makes; see Filter."""
        with self._cursor(where) as cursor:
            Filter(where, within, checkpoint).create_views(cursor)
            yield cursor

    @contextmanager
    def _cursor(self, where: str | None) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._database.cursor(self.signature) as cursor:
            self._running.add(cursor)
            try:
                yield cursor
            except duckdb.Error as error:
                raise connection.explained(error, self._database.path, where) from error
            finally:
                self._running.discard(cursor)

    def _remembered(self, name: str) -> pd.DataFrame:
        return self._database.remember(self.signature, name, lambda: self.frame(name))

    def _sorted_losses(self) -> np.ndarray:
        return self._remembered("sorted_losses")["vanilla_loss"].to_numpy()
