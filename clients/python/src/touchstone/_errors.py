"""What can go wrong, each with a next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._results import Result


class TouchstoneError(Exception):
    """The evaluation could not be completed.

    ``code`` is the error code of the program, if it reported one, and ``remedy`` the next step.
    """

    def __init__(self, message: str, *, remedy: str | None = None, code: str | None = None) -> None:
        super().__init__(message if remedy is None else f"{message}. Try: {remedy}")
        self.message = message
        self.remedy = remedy
        self.code = code

    def without(self, folder: str) -> TouchstoneError:
        """The error without the paths of a folder that no longer exists."""
        if folder not in str(self):
            return self
        remedy = None if self.remedy is None or folder in self.remedy else self.remedy
        return type(self)(self.message.replace(f"{folder}/", ""), remedy=remedy, code=self.code)


class BinaryNotFound(TouchstoneError):
    """The ``touchstone`` program is not installed, or cannot be executed."""


class InvalidArguments(TouchstoneError, ValueError):
    """An argument has an invalid value, or does not go with another one."""


class InvalidCases(InvalidArguments):
    """The cases cannot be read."""


class VerdictNotReached(TouchstoneError, AssertionError):
    """The verdict is not a pass; raised by ``Result.raise_for_verdict``."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result
