"""Turns cases into a suite that the program reads (docs/evaluate-your-agent.md)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _json
from ._errors import InvalidCases
from ._types import UNSET, Case, Cases, Match

CHECK = "judge"
"""The name of the assertion that a Python judge decides."""
_TASK_ID = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
_KNOWN = tuple(field.name for field in dataclasses.fields(Case))


def slug(text: str) -> str:
    """The text as a part of an id: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-") or "agent"


def is_path(cases: Cases) -> bool:
    return isinstance(cases, (str, os.PathLike))


def write_suite(
    cases: Cases, folder: Path, *, name: str, match: Match, pass_score: float | None, judged: bool
) -> Path:
    """Writes cases as a suite and its scoring document. ``judged`` says that a Python judge decides
    about cases that have neither a rubric nor assertions of their own."""
    found = _read(cases)
    if not found:
        raise InvalidCases("there are no cases", remedy="pass at least one, such as {'input': …, 'expected': …}")
    suite_id = f"private.python.evals.{name}"
    tasks: list[dict[str, Any]] = []
    scored: dict[str, dict[str, Any]] = {}
    modes = ["golden"]
    seen: dict[str, int] = {}
    for index, case in enumerate(found):
        task = case.id if case.id is not None else f"case-{index + 1}"
        if not isinstance(task, str):
            raise InvalidCases(f"case {index}: id must be a text, got {task!r}", remedy=f"use {slug(str(task))!r}")
        if not _TASK_ID.match(task):
            raise InvalidCases(
                f"case {index}: the id {task!r} may have only lower-case letters, digits and hyphens",
                remedy=f"use {slug(task)!r}",
            )
        if task in seen:
            raise InvalidCases(
                f"cases {seen[task]} and {index} have the same id {task!r}",
                remedy="give each case its own id, or none",
            )
        seen[task] = index
        for member, given, what in (
            ("rubric", case.rubric, "criteria"),
            ("assertions", case.assertions, "assertions"),
            ("tags", case.tags, "tags"),
        ):
            if isinstance(given, (str, Mapping)):
                raise InvalidCases(
                    f"case {index}: {member} must be a list of {what}, got a {type(given).__qualname__}",
                    remedy="put it in a list",
                )
        expected, entry = _expectation(case, index, match, judged)
        if expected["kind"] == "rubric" and "rubric" not in modes:
            modes.append("rubric")
        tasks.append({"taskId": task, "input": case.input, "expected": expected})
        if case.tags:
            entry["tags"] = list(case.tags)
        if entry:
            scored[task] = entry
    suite: dict[str, Any] = {"suiteId": suite_id, "version": "0.1.0", "modes": modes, "tasks": tasks}
    if pass_score is not None:
        suite["thresholds"] = {"passScore": pass_score}
    file = folder / f"{name}.json"
    _write(file, suite)
    if scored:
        scoring = {"scoringVersion": 1, "suiteId": suite_id, "tasks": scored}
        _write(folder / f"{name}.scoring.json", scoring)
    return file


def _write(file: Path, document: Mapping[str, Any]) -> None:
    try:
        file.write_text(_json.dumps(document), encoding="utf-8")
    except (TypeError, ValueError) as cause:
        raise InvalidCases(f"a case is not JSON: {cause}", remedy="use only str, numbers, bool, None, dict and list") from cause


def contents(suite: Path) -> dict[str, dict[str, Any]]:
    """``input`` and ``expected`` of each task of a suite, by its id; empty for another kind of file."""
    found = {}
    try:
        for task in json.loads(suite.read_text(encoding="utf-8"))["tasks"]:
            match = task["expected"].get("match", {})
            # This matches every answer: only assertions decide.
            nothing = match.get("strategy") == "contains" and match.get("value") == ""
            expected = task["expected"].get("rubric") if not match or nothing else match.get("value")
            found[task["taskId"]] = {"input": task["input"], "expected": expected}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return found


def _read(cases: Cases) -> list[Case]:
    rows: Sequence[Any]
    if callable(records := getattr(cases, "to_dict", None)) and hasattr(cases, "columns"):
        rows = records(orient="records")
    elif isinstance(cases, Sequence):
        rows = cases
    else:
        raise InvalidCases(
            f"cases must be a file, a list of cases or a DataFrame, got {type(cases).__qualname__}",
            remedy="pass a list, such as [{'input': …, 'expected': …}]",
        )
    return [row if isinstance(row, Case) else _of_row(row, index) for index, row in enumerate(rows)]


def _of_row(row: Any, index: int) -> Case:
    if not isinstance(row, Mapping):
        raise InvalidCases(
            f"case {index} must be a dict or a touchstone.Case, got {type(row).__qualname__}",
            remedy="write it as {'input': …, 'expected': …}",
        )
    # A DataFrame has NaN where a row has no value.
    given = {str(name): value for name, value in row.items() if not _is_missing(value)}
    unknown = sorted(set(given) - set(_KNOWN))
    if unknown:
        raise InvalidCases(
            f"case {index} has the unknown member {unknown[0]!r}",
            remedy=f"use only {', '.join(_KNOWN)}",
        )
    if "input" not in given:
        raise InvalidCases(f"case {index} has no input", remedy="add the member 'input'")
    # A row says `None` for a missing value; only a Case can expect `None` itself.
    return Case(**{name: value for name, value in given.items() if value is not None or name == "input"})


def _is_missing(value: Any) -> bool:
    # pandas has values of its own for missing texts, numbers and times.
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))


def _expectation(case: Case, index: int, match: Match, judged: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The expectation of the suite, and the entry of the scoring document."""
    entry: dict[str, Any] = {}
    assertions = [dict(assertion) for assertion in case.assertions]
    if judged and not assertions and not case.rubric:
        assertions = [{"type": "command", "name": CHECK, "graded": True}]
    if assertions:
        entry["assertions"] = assertions
    if case.threshold is not None:
        entry["threshold"] = case.threshold
    if case.rubric:
        weight = 1 / len(case.rubric)
        criteria = [{"criterion": criterion, "weight": weight} for criterion in case.rubric]
        if assertions and not any(it.get("type") == "expected" for it in assertions):
            assertions.append({"type": "expected"})
        return {"kind": "rubric", "rubric": criteria}, entry
    if case.expected is UNSET:
        if not assertions:
            raise InvalidCases(
                f"case {index} does not say which answers are right",
                remedy="add expected, rubric or assertions, or a Python judge",
            )
        # Assertions alone decide; the format of a suite needs an expectation nevertheless.
        return {"kind": "golden", "match": {"strategy": "contains", "value": ""}}, entry
    strategy = case.match or match
    if strategy not in ("exact", "contains"):
        raise InvalidCases(f"case {index}: match must be 'exact' or 'contains', got {strategy!r}", remedy="correct it")
    if isinstance(case.expected, (str, int, float, bool)) or case.expected is None:
        return {"kind": "golden", "match": {"strategy": strategy, "value": case.expected}}, entry
    return {"kind": "golden", "match": {"strategy": "json-match", "value": case.expected}}, entry
