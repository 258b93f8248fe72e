"""Finds the ``touchstone`` program."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import subprocess
import warnings
from pathlib import Path

from ._errors import BinaryNotFound
from ._version import __version__

VARIABLE = "TOUCHSTONE_BIN"
DISTRIBUTION = "touchstone-evals"
INSTALL = f"install the package with its program (pip install {DISTRIBUTION}), or set {VARIABLE} to its path"


def find() -> str:
    """The path of the program: ``TOUCHSTONE_BIN``, else in this package, else in ``PATH``."""
    named = os.environ.get(VARIABLE)
    if named:
        if not _is_executable(Path(named)):
            raise BinaryNotFound(f"{VARIABLE} is {named}, which is not an executable file", remedy=f"correct or unset {VARIABLE}")
        return named
    found = _in_package() or shutil.which("touchstone")
    if found is None:
        raise BinaryNotFound("the program `touchstone` was not found in this package or in PATH", remedy=INSTALL)
    _check_version(found)
    return found


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _in_package() -> str | None:
    # The list of installed files also finds the program after `pip install --target`, and in
    # environments that see the packages of another one.
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "touchstone" and file.parent.name == "bin":
            path = Path(str(file.locate())).resolve()
            if _is_executable(path):
                return str(path)
    return None


@functools.cache
def _check_version(path: str) -> None:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as cause:
        raise BinaryNotFound(f"{path} cannot be executed: {cause}", remedy=INSTALL) from cause
    version = done.stdout.strip().removeprefix("touchstone ")
    if version != __version__:
        warnings.warn(
            f"{path} is version {version}, but this package is {__version__}: set {VARIABLE} or install equal versions",
            RuntimeWarning,
            stacklevel=4,
        )
