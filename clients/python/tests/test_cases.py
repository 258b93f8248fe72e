from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from touchstone import Case, InvalidCases, _cases


def written(tmp_path: Path, cases: Any, *, judged: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    file = _cases.write_suite(cases, tmp_path, name="mine", match="exact", pass_score=0.5, judged=judged)
    scoring = tmp_path / "mine.scoring.json"
    return json.loads(file.read_text()), json.loads(scoring.read_text()) if scoring.exists() else {}


def test_rows_become_a_suite(tmp_path: Path) -> None:
    rows = [
        {"input": "a", "expected": "b"},
        {"input": {"q": 1}, "expected": [1], "id": "second", "tags": ["x"]},
        Case("c", "d", match="contains", threshold=0.5, assertions=[{"type": "expected"}]),
    ]
    suite, scoring = written(tmp_path, rows)
    assert suite["suiteId"] == "private.python.evals.mine" and suite["thresholds"] == {"passScore": 0.5}
    assert [task["taskId"] for task in suite["tasks"]] == ["case-1", "second", "case-3"]
    assert [task["expected"]["match"]["strategy"] for task in suite["tasks"]] == ["exact", "json-match", "contains"]
    assert scoring["tasks"] == {
        "second": {"tags": ["x"]},
        "case-3": {"assertions": [{"type": "expected"}], "threshold": 0.5},
    }


def test_a_python_judge_decides_where_nothing_else_does(tmp_path: Path) -> None:
    rows = [Case("a"), Case("b", "c"), Case("d", rubric=["e"]), Case("f", assertions=[{"type": "is-json"}])]
    suite, scoring = written(tmp_path, rows, judged=True)
    check = [{"type": "command", "name": "judge", "graded": True}]
    assert scoring["tasks"]["case-1"]["assertions"] == check
    assert scoring["tasks"]["case-2"]["assertions"] == check
    assert "case-3" not in scoring["tasks"]
    assert scoring["tasks"]["case-4"]["assertions"] == [{"type": "is-json"}]
    assert suite["modes"] == ["golden", "rubric"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there are no cases"),
        ([{"expected": "a"}], "case 0 has no input"),
        ([{"input": "a"}], "does not say which answers are right"),
        ([{"input": "a", "expect": "b"}], "unknown member 'expect'"),
        ([{"input": "a", "expected": "b", "id": "Ä B"}], "use 'b'"),
        ([Case("a", "b", id="x"), Case("c", "d", id="x")], "cases 0 and 1 have the same id 'x'"),
        ([Case(object(), "b")], "is not JSON"),
        ([Case("a", float("nan"))], "is not JSON"),
        (["a"], "case 0 must be a dict or a touchstone.Case, got str"),
        (3, "got int"),
        ([Case("a", rubric="short")], "list of criteria"),
        ([{"input": "a", "assertions": {"type": "regex"}}], "list of assertions"),
        ([{"input": "a", "expected": "b", "tags": "short"}], "list of tags"),
        ([{"input": "a", "expected": "b", "id": 7}], "id must be a text, got 7"),
    ],
)
def test_wrong_cases_are_refused_with_a_next_step(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(InvalidCases, match=message) as raised:
        written(tmp_path, rows)
    assert raised.value.remedy
