"""Locks between processes. The system frees one when its holder is gone, however that ended."""

import fcntl
import os
from pathlib import Path
from typing import IO

from db.errors import UserError


class Lock:
    """A lock file: exclusive, or shared between many holders."""

    def __init__(self, path: Path):
        self.path = path
        self._file: IO[str] | None = None

    def take(self, wait: bool, shared: bool = False) -> bool:
        """Whether it is held now; with `wait`, once nobody stands against it. Raises UserError where files cannot be locked."""
        kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        while True:
            file = open(self.path, "a")
            try:
                fcntl.flock(file, kind)
            except BlockingIOError:
                file.close()
                return False
            except OSError as error:
                file.close()
                raise UserError(f"{self.path} cannot be locked ({error.strerror}); put the --output on a file system that has locks.") from error
            if _is_at(file, self.path):
                self._file = file
                return True
            file.close()

    def is_held(self) -> bool:
        """Whether it was taken, and its file is still the one that others see."""
        return self._file is not None and _is_at(self._file, self.path)

    def release(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


def _is_at(file: IO[str], path: Path) -> bool:
    """False where another process removed the file between its opening and its locking."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
