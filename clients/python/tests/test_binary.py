from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

import touchstone
from touchstone import _binary


def program(folder: Path, version: str = touchstone.__version__) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "touchstone"
    file.write_text(f"#!/bin/sh\necho touchstone {version}\n")
    file.chmod(0o755)
    return file


def test_the_variable_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = program(tmp_path / "named")
    monkeypatch.setenv("PATH", str(program(tmp_path / "path").parent))
    monkeypatch.setenv("TOUCHSTONE_BIN", str(named))
    assert _binary.find() == str(named)
    monkeypatch.setenv("TOUCHSTONE_BIN", str(tmp_path / "none"))
    with pytest.raises(touchstone.BinaryNotFound, match="correct or unset TOUCHSTONE_BIN"):
        _binary.find()


def test_then_the_package_then_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOUCHSTONE_BIN", raising=False)
    in_path = program(tmp_path / "path")
    monkeypatch.setenv("PATH", f"{in_path.parent}{os.pathsep}/usr/bin:/bin")
    assert _binary.find() == str(in_path)
    site = tmp_path / "site"
    information = site / "touchstone_evals-0.1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.4\nName: touchstone-evals\nVersion: 0.1.0\n")
    (information / "RECORD").write_text("bin/touchstone,,\n")
    in_package = program(site / "bin")
    monkeypatch.syspath_prepend(str(site))
    assert _binary.find() == str(in_package)


def test_a_missing_program_is_an_error_with_a_next_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOUCHSTONE_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(touchstone.BinaryNotFound, match="set TOUCHSTONE_BIN"):
        _binary.find()


def test_another_version_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOUCHSTONE_BIN", raising=False)
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'old', '0.0.1').parent}{os.pathsep}/usr/bin:/bin")
    with pytest.warns(RuntimeWarning, match="is version 0.0.1"):
        _binary.find()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _binary.find()  # Once per process.
