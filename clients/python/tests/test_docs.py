"""Runs every example of docs/python.md, in the order of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Model

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
ENDPOINT = "http://127.0.0.1:11434/v1"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_examples_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Callable[[str], Model]) -> None:
    monkeypatch.chdir(tmp_path)
    examples = blocks("python")
    assert len(examples) >= 10
    server = model("Paris")
    names: dict[str, Any] = {"__name__": "examples"}
    for number, example in enumerate(examples):
        code = example.replace(ENDPOINT, server.url)
        exec(compile(code, f"example {number}", "exec"), names)
    assert names["after"].comparison.broke == ()
    assert names["result"].count("passed") == 1
    assert server.requests


def test_the_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    (example,) = blocks("python test")
    pytester.makepyfile(example)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_every_exported_name_is_documented() -> None:
    import touchstone

    text = PAGE.read_text(encoding="utf-8")
    described = {"Change", "Comparison", "Difference", "Estimate", "Failure", "Progress", "Result", "Task", "ToolCall", "__version__"}
    for name in set(touchstone.__all__) - described:
        assert name in text, f"{name} is not in docs/python.md"
