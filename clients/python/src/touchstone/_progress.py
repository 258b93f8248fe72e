"""Progress while an evaluation runs."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._results import Outcome


@dataclass(frozen=True)
class Progress:
    """A task has ended. ``done`` and ``total`` count the tasks of this trial."""

    task: str
    outcome: Outcome
    score: float | None
    done: int
    total: int | None
    run_id: str
    trial: int = 1


class Line:
    """One line on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._counts = {"passed": 0, "failed": 0, "unjudged": 0}

    def __call__(self, progress: Progress) -> None:
        self._counts[progress.outcome] += 1
        counts = "  ".join(f"{n} {outcome}" for outcome, n in self._counts.items())
        total = "" if progress.total is None else f"/{progress.total}"
        sys.stderr.write(f"\r\x1b[K{progress.done}{total}  {counts}")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class Reader:
    """Reads what ``eval --progress`` writes to a pipe, and calls back in its own thread."""

    def __init__(self, on_progress: Callable[[Progress], Any], interrupt: Callable[[], None]) -> None:
        self._read, self.lent = os.pipe()
        self._on_progress = on_progress
        self._interrupt = interrupt
        self._runs: list[str] = []
        self._thread = threading.Thread(target=self._follow, name="touchstone-progress", daemon=True)
        self.exception: BaseException | None = None

    @property
    def path(self) -> str:
        return f"/dev/fd/{self.lent}"

    def start(self) -> None:
        os.close(self.lent)
        self.lent = -1
        self._thread.start()

    def close(self) -> None:
        if self.lent >= 0:
            os.close(self.lent)
            os.close(self._read)
            self.lent = -1
        elif self._thread.ident is not None:
            # Processes that the program started may hold the pipe a moment longer.
            self._thread.join(timeout=2)

    def _follow(self) -> None:
        with os.fdopen(self._read, encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                run = event["runId"]
                if run not in self._runs:
                    self._runs.append(run)
                if event["type"] == "task" and self.exception is None:
                    self._report(event, self._runs.index(run) + 1)

    def _report(self, event: dict[str, Any], trial: int) -> None:
        progress = Progress(
            task=event["taskId"],
            outcome=event["outcome"],
            score=event["score"],
            done=event["done"],
            total=event["total"],
            run_id=event["runId"],
            trial=trial,
        )
        try:
            self._on_progress(progress)
        except BaseException as exception:
            self.exception = exception
            self._interrupt()
