from __future__ import annotations

from touchstone import Estimate, Failure, Result, Task, Verdict


def result(**changed: object) -> Result:
    members: dict[str, object] = {
        "run_ids": ("run_1",),
        "verdict": Verdict.FAIL,
        "reasons": ("the score 0.5 is below the pass score 0.8",),
        "score": Estimate(0.5, -0.2, 1.4, "t"),
        "pass_rate": None,
        "pass_score": 0.8,
        "tasks": (Task("a", "passed", 1.0, latency_ms=12), Task("b", "failed", 0.0)),
        "failures": (
            Failure("b", "failed", 0.0, "<script>alert(1)</script>", "x", {"k": "</pre>"}, transcript=({"step": "<b>"},)),
        ),
    }
    return Result(**{**members, **changed})  # type: ignore[arg-type]


def test_html_escapes_everything() -> None:
    page = result()._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert page.count("</pre>") == 1 and "<b>" not in page
    assert "FAIL" in page and "12 ms" in page


def test_long_results_are_shortened() -> None:
    tasks = tuple(Task(f"t{n}", "failed", 0.0) for n in range(500))
    failures = tuple(Failure(task.id, "failed", 0.0, "x" * 10_000_000) for task in tasks)
    long = result(tasks=tasks, failures=failures)
    assert len(long._repr_html_()) < 200_000 and "and 300 more tasks" in long._repr_html_()
    assert "and 490 more in result.failures" in long.summary()


def test_intervals_are_clipped_for_people_only() -> None:
    found = result()
    assert str(found.score) == "0.50 [0.00, 1.00]" and found.score.low == -0.2
    assert repr(found) == "<Result fail: score 0.50 [0.00, 1.00], 1 of 2 tasks passed, run_1>"
