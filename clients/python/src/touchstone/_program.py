"""Runs the ``touchstone`` program."""

from __future__ import annotations

import collections
import contextlib
import json
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from ._errors import InvalidArguments, InvalidCases, TouchstoneError

PATIENCE = 10
"""Seconds that an interrupted program has to end its run."""
_OF_CASES = ("cases_unknown_format", "not_imported", "unreadable")
_COMPLETED = (0, 1, 4)
_OPTION = re.compile(r"--(baseline-key|baseline|cases|config|data|judge|pass-score)\b(?: [A-Z]+\b)?")
"""Options of the program that are arguments here."""


@dataclass
class Done:
    """The end of the program."""

    code: int
    output: str
    notes: list[str]

    def document(self) -> Any:
        """The JSON that it printed. Raises what it reports as an error."""
        try:
            found = json.loads(self.output)
        except ValueError:
            found = None
        if isinstance(found, dict) and found.get("ok") is False:
            raise _error(found["error"], self.code)
        if found is None or self.code not in _COMPLETED:
            said = "; ".join(self.notes[-3:]) or "it printed nothing"
            raise TouchstoneError(f"touchstone ended with exit code {self.code}: {said}")
        return found


def _error(error: Mapping[str, Any], code: int) -> TouchstoneError:
    kind: type[TouchstoneError] = TouchstoneError
    if code == 2:
        kind = InvalidCases if error["code"] in _OF_CASES else InvalidArguments
    remedy = error.get("remedy")
    if remedy is not None:
        remedy = _OPTION.sub(lambda it: f"`{it[1].replace('-', '_')}=`", remedy)
    return kind(error["message"], remedy=remedy, code=error["code"])


class Process:
    """One process of the program, which writes its result to a pipe."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int] = ()) -> None:
        # A session of its own: Ctrl-C in a terminal reaches this process, which then decides.
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._output: list[str] = []
        self._notes: collections.deque[str] = collections.deque(maxlen=200)
        self._readers = [
            threading.Thread(target=self._read_output, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_notes, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_output(self, stream: IO[str]) -> None:
        self._output.append(stream.read())

    def _read_notes(self, stream: IO[str]) -> None:
        for line in stream:
            if line.strip():
                self._notes.append(line.strip())

    def interrupt(self) -> None:
        """Cancels the run; the program then ends by itself."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> Done:
        """Waits for the end. If this is interrupted, the program ends before it returns."""
        try:
            code = self._process.wait()
        except BaseException:
            self.end()
            raise
        for reader in self._readers:
            # A process that the program started may hold its standard error.
            reader.join(timeout=PATIENCE)
        return Done(code, "".join(self._output), list(self._notes))

    def end(self) -> None:
        self.interrupt()
        try:
            self._process.wait(timeout=PATIENCE)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise


@dataclass
class Program:
    """The program with the options that every command gets."""

    binary: str
    options: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)

    def start(self, arguments: Sequence[str], pass_fds: Sequence[int] = ()) -> Process:
        line = [self.binary, "--json", *self.options, *arguments]
        return Process(line, self.environment, pass_fds)

    def run(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        return self.start(arguments).wait().document()

    def lines(self, *arguments: str) -> list[Any]:
        """The JSON documents that a command prints, one per line."""
        done = self.start(arguments).wait()
        if done.code != 0:
            done.document()
        return [json.loads(line) for line in done.output.splitlines() if line]
