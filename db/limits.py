"""A child process that is given so much memory and time and no more.

Neither DuckDB's memory limit, nor its time limit, nor an interrupt stops every query: some build a
value of gigabytes in one step. An address-space limit and a kill do.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from db.errors import UserError

ROOT = Path(__file__).parent.parent  # where the packages are, from whatever folder the process was started
SECONDS = 30.0
NICE = 15  # how far a child steps back behind the process that answers everybody else
ADDRESS_SPACE = 2 << 30  # bytes beyond what the process has mapped when its work begins


def confine(address_space: int = ADDRESS_SPACE) -> None:
    """Limit this process: behind others for the processor, no more address space than this beyond today's, no core dump, no written file."""
    import resource

    os.nice(NICE)
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + address_space,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class Child:
    """A running `python -m module arguments`, in a process group of its own."""

    def __init__(self, module: str, arguments: Sequence[str] = (), is_piped: bool = True) -> None:
        pipe = subprocess.PIPE if is_piped else None
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe,
            stderr=subprocess.DEVNULL if is_piped else None,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        )

    def result(self, request: bytes | None = None, seconds: float = SECONDS) -> tuple[int, bytes]:
        """Exit code and output, after sending `request`. Raises UserError, having killed it, when the time is over."""
        try:
            output, _ = self._process.communicate(request, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"It ran longer than {seconds:g} s and was stopped.") from error
        finally:
            self.stop()
        return self._process.returncode, output or b""

    def stop(self) -> None:
        """Kill it, if it still runs, and whatever it started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):  # it may end by itself between the two, and poll knows nothing while another thread waits
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
