"""Evaluations as tests.

    @pytest.mark.touchstone("evals/triage.json", pass_score=0.8)
    def test_triage(question):
        return my_agent(question)

The marked function is the agent: it is called for every task and returns the answer. The test passes
if the verdict is a pass and the agent is not significantly worse than the baseline, if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._results import Result

MARK = "touchstone"
QUESTION = "question"
_VERDICT = "touchstone_verdict"
_BASELINE = "touchstone_baseline"
_HELP = (
    "touchstone(suite, **options): evaluate the function as an agent over the cases of `suite`; the options are "
    "those of touchstone.evaluate"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("touchstone")
    group.addoption(
        "--touchstone-inconclusive",
        choices=("fail", "skip", "pass"),
        default="fail",
        help="what an inconclusive verdict means for the exit code [default: fail]",
    )
    group.addoption(
        "--touchstone-data",
        metavar="DIR",
        help="folder with the runs, which baselines are looked up in [default: .touchstone/pytest in the root folder]",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _HELP)


@pytest.fixture
def question(request: pytest.FixtureRequest) -> None:
    """Stands for the input of a task in functions marked touchstone."""
    if request.node.get_closest_marker(MARK) is None:
        pytest.fail("the fixture `question` is only for functions marked touchstone", pytrace=False)


@pytest.fixture
def evaluation(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """``touchstone.evaluate`` with the data folder of this session; its result is part of the report."""

    def evaluate(*arguments: Any, **options: Any) -> Result:
        from . import evaluate

        options.setdefault("data", _data(request.config))
        options.setdefault("name", request.node.name)
        result = evaluate(*arguments, **options)
        _record(request.node, result)
        return result

    return evaluate


def _data(config: pytest.Config) -> str:
    given = config.getoption("--touchstone-data")
    folder = str(given) if given else str(config.rootpath / ".touchstone" / "pytest")
    # Processes of pytest-xdist do not share an embedded database.
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return folder if worker is None else f"{folder}-{worker}"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    mark = pyfuncitem.get_closest_marker(MARK)
    if mark is None:
        return None
    from ._errors import TouchstoneError
    from ._results import Verdict

    refusal: str | None = None
    try:
        result = _evaluated(pyfuncitem, mark)
    except TouchstoneError as error:
        # pytest would show an error that is raised here twice.
        refusal = str(error)
    if refusal is not None:
        pytest.fail(refusal, pytrace=False)
    _record(pyfuncitem, result)
    regressed = result.comparison is not None and result.comparison.regressed
    if result.verdict is Verdict.FAIL or regressed:
        pytest.fail(result.summary(), pytrace=False)
    if result.verdict is Verdict.INCONCLUSIVE:
        meaning = pyfuncitem.config.getoption("--touchstone-inconclusive")
        if meaning == "fail":
            pytest.fail(result.summary(), pytrace=False)
        if meaning == "skip":
            pytest.skip(result.summary())
    return True


def _evaluated(item: pytest.Function, mark: pytest.Mark) -> Result:
    from . import evaluate

    options = dict(mark.kwargs)
    given = [*mark.args, *(options.pop(name) for name in ("suite", "cases") if name in options)]
    if len(given) != 1:
        pytest.fail("write the cases once: @pytest.mark.touchstone(suite)", pytrace=False)
    cases = given[0]
    if isinstance(cases, (str, os.PathLike)):
        cases = item.config.rootpath / cases
    options.setdefault("data", _data(item.config))
    options.setdefault("name", item.name)
    options.setdefault("progress", False)
    return evaluate(cases, _agent(item), **options)


def _agent(item: pytest.Function) -> Callable[[Any], Any]:
    """The marked function with its other fixtures, under its own name."""
    import inspect

    from . import _bridge
    from ._types import Question

    function = item.obj
    parameters = inspect.signature(function).parameters
    if QUESTION not in parameters:
        pytest.fail(f"{item.name} needs the parameter `{QUESTION}`, which receives the input of a task", pytrace=False)
    fixtures = {name: item.funcargs[name] for name in parameters if name != QUESTION and name in item.funcargs}

    def agent(question: Any) -> Any:
        return function(**{QUESTION: question}, **fixtures)

    agent.__module__, agent.__qualname__ = function.__module__, function.__qualname__
    if _bridge.is_question(function, QUESTION):
        agent.__annotations__ = {QUESTION: Question}
    return agent


def _record(item: pytest.Item, result: Result) -> None:
    item.user_properties += [
        (_VERDICT, result.verdict.value),
        ("touchstone_score", str(result.score)),
        ("touchstone_pass_score", result.pass_score),
        ("touchstone_run", result.run_id),
    ]
    if result.comparison is not None:
        item.user_properties.append((_BASELINE, result.comparison.verdict))
    transcripts = [_transcript(failure) for failure in result.failures]
    if transcripts:
        item.add_report_section("call", "touchstone", "\n".join(transcripts))


def _transcript(failure: Any) -> str:
    import json

    steps = [json.dumps(step, ensure_ascii=False, default=str) for step in failure.transcript]
    text = "\n  ".join([f"{failure.id} (trial {failure.trial})", *steps])
    return text if failure.traceback is None else f"{text}\n{failure.traceback}"


def _verdict(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    if getattr(report, "when", None) != "call":
        return None
    found = [value for name, value in getattr(report, "user_properties", ()) if name == _VERDICT]
    return str(found[-1]) if found else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # Plain members survive pytest-xdist. A test with the fixture `evaluation` decides by itself.
    report.touchstone_inconclusive = (  # type: ignore[attr-defined]
        _verdict(report) == "inconclusive"
        and item.get_closest_marker(MARK) is not None
        and (_BASELINE, "regressed") not in report.user_properties
    )
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    if getattr(report, "touchstone_inconclusive", False):
        return "inconclusive", "I", ("INCONCLUSIVE", {"yellow": True})
    return None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found if _verdict(report) is not None]
    if not reports:
        return
    terminalreporter.section("touchstone")
    for report in reports:
        properties = dict(report.user_properties)
        terminalreporter.write_line(
            f"{report.nodeid}  {properties[_VERDICT].upper()}  score {properties['touchstone_score']}"
            f"  pass score {properties['touchstone_pass_score']:g}  {properties['touchstone_run']}"
        )
        # Failures are shown under FAILURES; this outcome has no section of its own.
        if getattr(report, "touchstone_inconclusive", False) and report.failed:
            terminalreporter.write_line(report.longreprtext)
