from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import touchstone
from touchstone import _binary, _bridge
from touchstone import Answer, Case, Endpoint, Judged, Judgement, Progress, Question, ToolCall, Verdict

from .conftest import Evaluate, Model

CITIES = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo"}
CASES = [{"id": country.lower(), "input": f"Capital of {country}?", "expected": city} for country, city in CITIES.items()]


def right(question: str) -> str:
    return CITIES[question.split()[-1].rstrip("?")]


def doubles(count: int) -> list[dict[str, Any]]:
    return [{"input": n, "expected": str(n * 2)} for n in range(count)]


def test_a_pass_has_an_interval_above_the_pass_score(evaluate: Evaluate) -> None:
    result = evaluate(doubles(20), lambda n: str(n * 2), pass_score=0.8)
    assert result.verdict is Verdict.PASS and result.passed and result.exit_code == 0
    assert result.score.value == 1 and result.score.low is not None and result.score.low >= 0.8
    assert result.pass_rate is not None and result.pass_rate.method == "wilson"
    assert result.pass_score == 0.8 and result.failures == () and result.count("passed") == 20
    assert result.run_id.startswith("run_") and result.duration_ms is not None
    result.raise_for_verdict()
    with pytest.raises(TypeError, match="result.passed"):
        bool(result)


def test_too_few_tasks_are_inconclusive_in_the_result_and_in_its_report(evaluate: Evaluate) -> None:
    result = evaluate(doubles(3), lambda n: str(n * 2), pass_score=0.8)
    assert result.verdict is Verdict.INCONCLUSIVE and result.report["verdict"] == "inconclusive"
    assert "the score 1.000 reaches the pass score 0.800, but not with significance" in result.reasons[0]
    lenient = evaluate(doubles(3), lambda n: str(n * 2), pass_score=0.8, lenient=True)
    assert lenient.passed and lenient.report["verdict"] == "pass" and lenient.reasons == ()


def test_a_failure_has_its_content_and_its_transcript(evaluate: Evaluate) -> None:
    result = evaluate(CASES, lambda question: "Rome", pass_score=0.9)
    assert result.verdict is Verdict.FAIL and not result.passed and result.exit_code == 1
    assert [failure.id for failure in result.failures] == ["france", "norway"]
    failure = result.failures[0]
    assert (failure.outcome, failure.input, failure.expected) == ("failed", "Capital of France?", "Paris")
    assert failure.actual == "Rome" and failure.differences[0]["kind"] == "changed"
    assert {step["step"] for step in failure.transcript} >= {"started", "answered"}
    assert result.reasons and "pass score" in result.reasons[0]
    text = result.summary()
    assert "FAIL" in text and "expected  Paris" in text and "actual    Rome" in text
    with pytest.raises(touchstone.VerdictNotReached, match="FAIL") as raised:
        result.raise_for_verdict(inconclusive=False)
    assert raised.value.result is result
    assert isinstance(raised.value, AssertionError)


def test_an_exception_leaves_the_task_unjudged_and_is_kept(evaluate: Evaluate) -> None:
    def broken(question: str) -> str:
        if "France" in question:
            raise KeyError("no France")
        return right(question)

    result = evaluate(CASES, broken)
    assert result.verdict is Verdict.INCONCLUSIVE
    (failure,) = result.failures
    assert (failure.id, failure.outcome, failure.reason, failure.score) == ("france", "unjudged", "agent_failed", None)
    assert isinstance(failure.exception, KeyError)
    assert failure.traceback is not None and "in broken" in failure.traceback
    assert "KeyError" in str(failure)
    result.raise_for_verdict(inconclusive=False)
    with pytest.raises(touchstone.VerdictNotReached):
        result.raise_for_verdict()


def test_what_is_not_json_is_an_exception_of_the_task(evaluate: Evaluate) -> None:
    answers: dict[str, Any] = {"a": float("nan"), "b": object(), "c": "x" * (9 << 20)}
    cases = [{"id": name, "input": name, "expected": "x"} for name in answers]
    result = evaluate(cases, lambda name: answers[name])
    kinds = {failure.id: type(failure.exception).__name__ for failure in result.failures}
    assert kinds == {"a": "ValueError", "b": "TypeError", "c": "AnswerTooLarge"}


def test_answers_may_be_large_unicode_and_structured(evaluate: Evaluate) -> None:
    @dataclasses.dataclass
    class Found:
        city: str
        tags: tuple[str, ...]

    large = "é\u2028\n" * 500_000
    answers: dict[str, Any] = {"text": large, "object": Found("Zürich", ("a", "b")), "none": None}
    cases = [
        Case("text", large, id="text"),
        Case("object", {"city": "Zürich", "tags": ["a", "b"]}, id="object"),
        Case("none", id="none", assertions=[{"type": "json-pointer", "pointer": "", "operator": "equals", "value": None}]),
    ]
    result = evaluate(cases[:2], lambda name: answers[name], lenient=True)
    assert result.passed, result.summary()


@pytest.mark.parametrize("own_loop", [True, False])
def test_async_functions(evaluate: Evaluate, tmp_path: Path, own_loop: bool) -> None:
    loops: set[int] = set()

    async def agent(question: str) -> str:
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0.01)
        return right(question)

    if own_loop:

        async def within() -> touchstone.Result:
            return evaluate(CASES, agent, lenient=True)  # As in a notebook, where a loop runs already.

        assert asyncio.run(within()).passed and len(loops) == 1
    else:

        async def awaited() -> tuple[touchstone.Result, int]:
            found = await touchstone.aevaluate(CASES, agent, lenient=True, data=tmp_path / "data")
            return found, id(asyncio.get_running_loop())

        result, loop = asyncio.run(awaited())
        assert result.passed and loops == {loop}


def test_cancelling_cancels_the_run(tmp_path: Path) -> None:
    asked = threading.Event()

    async def cancelled() -> None:
        ended = asyncio.Event()

        async def agent(question: str) -> str:
            asked.set()
            try:
                await asyncio.sleep(600)
            finally:
                ended.set()
            return "never"

        task = asyncio.create_task(touchstone.aevaluate(CASES, agent, data=tmp_path / "data"))
        await asyncio.to_thread(asked.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The function does not continue on the loop of the caller.
        await asyncio.wait_for(ended.wait(), 60)

    started = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - started < 60


def test_ctrl_c_ends_the_run(evaluate: Evaluate) -> None:
    def agent(question: str) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
        return "never"

    # A process of pytest-xdist ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            evaluate(CASES[:1], agent)
    finally:
        signal.signal(signal.SIGINT, before)


def test_eight_tasks_at_once_with_the_context_of_the_caller(evaluate: Evaluate) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    together = threading.Barrier(8)
    seen: set[str] = set()

    def agent(n: int) -> str:
        together.wait(60)
        seen.add(variable.get())
        return str(n * 2)

    assert evaluate(doubles(8), agent, lenient=True).passed
    assert seen == {"set"}


def test_a_function_that_hangs_is_limited(evaluate: Evaluate) -> None:
    def agent(n: int) -> str:
        if n == 1:
            time.sleep(600)
        return str(n * 2)

    started = time.monotonic()
    result = evaluate(doubles(3), agent, timeout=5, concurrency=1)
    assert time.monotonic() - started < 120
    assert [(failure.input, failure.outcome) for failure in result.failures] == [(1, "unjudged")]


def test_whole_questions_and_answers(evaluate: Evaluate) -> None:
    asked: list[Question] = []

    def agent(question: Question) -> Answer:
        asked.append(question)
        if question.input == "refuse":
            return Answer(refused=True)
        if len(question.messages) < 3:
            return Answer(tool_calls=[ToolCall("crm:find", {"id": 7})])
        return Answer("found", input_tokens=100, output_tokens=5)

    cases = [Case("find", "found", id="find"), Case("refuse", "x", id="refuse")]
    result = evaluate(cases, agent)
    assert asked[0].messages[-1]["role"] == "user"
    assert {question.raw["id"] for question in asked} == {0, 1, 2}
    outcomes = {task.id: task.outcome for task in result.tasks}
    assert outcomes["refuse"] == "failed"
    assert outcomes["find"] == "passed"
    called = [message for question in asked for message in question.messages if message["role"] == "tool"]
    assert len(called) == 1 and called[0]["callId"]


def test_a_python_judge(evaluate: Evaluate) -> None:
    seen: list[Judged] = []

    async def judge(judged: Judged) -> Judgement:
        seen.append(judged)
        if judged.task == "norway":
            raise RuntimeError("cannot tell")
        good = judged.output == judged.expected
        return Judgement(good, 1.0 if good else 0.25, "as expected" if good else "another city")

    result = evaluate(CASES, lambda question: "Paris", judge=judge, pass_score=0.5)
    assert {judged.expected for judged in seen} == set(CITIES.values())
    failures = {failure.id: failure for failure in result.failures}
    assert failures["italy"].score == 0.25
    assert "another city" in str(failures["italy"])
    assert failures["norway"].outcome == "unjudged"
    assert isinstance(failures["norway"].exception, RuntimeError)


def test_a_judge_of_bools_and_scores(evaluate: Evaluate) -> None:
    found = {0: True, 1: 0.75, 2: 0.25, 3: "yes"}
    result = evaluate([{"input": n} for n in found], lambda n: str(n), judge=lambda judged: found[judged.input])
    scores = {task.id: task.score for task in result.tasks}
    assert scores == {"case-1": 1, "case-2": 0.75, "case-3": 0.25, "case-4": None}
    assert isinstance(result.failures[-1].exception, TypeError)


def test_a_baseline_is_compared(evaluate: Evaluate) -> None:
    def capitals(question: str) -> str:
        return right(question)

    before = evaluate(CASES, capitals)
    after = evaluate(CASES, lambda question: "Rome", name="capitals", baseline=before)
    compared = after.comparison
    assert compared is not None and compared.baseline_run_id == before.run_id
    assert compared.broke == ("france", "norway") and compared.fixed == ()
    assert compared.difference.value == pytest.approx(-2 / 3)
    assert "broke: france, norway" in after.summary()
    assert str(compared.difference).startswith("-0.67 [-"), compared.difference
    again = evaluate(CASES, capitals, baseline="latest")
    assert again.comparison is not None and again.comparison.fixed == ("france", "norway")


@pytest.mark.parametrize("baseline", ["latest", "latest-passed"])
def test_the_first_run_has_no_latest_one_and_says_so(evaluate: Evaluate, baseline: str) -> None:
    result = evaluate(CASES, right, baseline=baseline, lenient=True)
    assert result.passed and result.comparison is None
    (note,) = (note for note in result.notes if note.startswith("no comparison: there is no "))
    assert note in result.summary()
    assert evaluate(CASES, right, baseline=baseline, lenient=True).comparison is not None


def test_a_signed_attestation_is_a_baseline(evaluate: Evaluate, tmp_path: Path) -> None:
    before = evaluate(CASES, right)
    file, key = tmp_path / "main.intoto.jsonl", tmp_path / "main.pub"
    for arguments in (["attest", before.run_id, "--out", str(file)], ["attest", "--public-key", "--out", str(key)]):
        command = [_binary.find(), "--data", str(tmp_path / "data"), *arguments]
        subprocess.run(command, check=True, capture_output=True)
    after = touchstone.evaluate(CASES, lambda question: "Rome", name="right", baseline=file, baseline_key=key, data=tmp_path / "other")
    assert after.comparison is not None and after.comparison.baseline_run_id == before.run_id
    assert after.comparison.broke == ("france", "norway")
    with pytest.raises(touchstone.InvalidArguments, match="no key is trusted") as refused:
        evaluate(CASES, right, baseline=file)
    assert refused.value.remedy is not None and "`baseline_key=`" in refused.value.remedy


def test_the_identity_of_a_function_is_its_name_and_version(evaluate: Evaluate) -> None:
    models = [evaluate(CASES[:1], right, version=version).report["agent"]["model"] for version in (None, None, "2")]
    assert models[0] == models[1] != models[2]


def test_another_host_cannot_call_a_function(evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOUCHSTONE_SERVER", "http://127.0.0.1:1")
    with pytest.raises(touchstone.InvalidArguments, match="unset TOUCHSTONE_SERVER"):
        evaluate(CASES, right)


def test_labels() -> None:
    def named(question: str) -> str:
        return question

    class Agent:
        def __call__(self, question: Question) -> str:
            return str(question.input)

    here = "python:tests.test_evaluate:test_labels.<locals>"
    assert _bridge.label(named, None) == f"{here}.named"
    assert _bridge.label(functools.partial(named), "1.0'; rm -rf /") == f"{here}.named version 1.0__ rm -rf _"
    assert _bridge.label(Agent(), None) == f"{here}.Agent"
    assert _bridge.label(lambda question: question, None).startswith(f"{here}.<lambda>@")
    assert _bridge.asks_whole(Agent()) and not _bridge.asks_whole(named)


def test_trials_are_pooled(evaluate: Evaluate) -> None:
    result = evaluate(CASES, right, trials=3, pass_score=0.2)
    assert len(result.run_ids) == 3 and len(result.tasks) == 9
    assert {task.trial for task in result.tasks} == {1, 2, 3}
    assert result.statistics["n_trials"] == 9


def test_progress_is_streamed(evaluate: Evaluate) -> None:
    seen: list[Progress] = []
    result = evaluate(CASES, right, on_progress=seen.append)
    assert [progress.done for progress in seen] == [1, 2, 3]
    assert {progress.task for progress in seen} == {"france", "italy", "norway"}
    last = seen[-1]
    assert (last.total, last.outcome, last.score, last.run_id) == (3, "passed", 1, result.run_id)


def test_an_exception_of_on_progress_ends_the_run(evaluate: Evaluate) -> None:
    calls = 0

    def agent(n: int) -> str:
        nonlocal calls
        calls += 1
        time.sleep(0.05)
        return str(n * 2)

    def stop(progress: Progress) -> None:
        raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        evaluate(doubles(400), agent, on_progress=stop, concurrency=1)
    assert calls < 400


def test_nothing_is_printed(evaluate: Evaluate, capfd: pytest.CaptureFixture[str]) -> None:
    evaluate(CASES, right)
    assert capfd.readouterr() == ("", "")


def test_judges_with_different_keys_are_refused() -> None:
    judges = [Endpoint("http://127.0.0.1:9/v1", "a", api_key="1"), Endpoint("http://127.0.0.1:9/v1", "b", api_key="2")]
    with pytest.raises(touchstone.InvalidArguments, match="different API keys"):
        touchstone.evaluate([{"input": "a", "expected": "a"}], lambda text: text, judge=judges)


def test_a_model_at_an_endpoint(evaluate: Evaluate, model: Callable[[str], Model]) -> None:
    server = model("Paris")
    endpoint = Endpoint(server.url, "mock", api_key="secret-1")
    assert "secret" not in repr(endpoint)
    result = evaluate(CASES[:1], endpoint, prompt="Name the city alone.", lenient=True, cache=False)
    assert result.passed, result.summary()
    assert "Name the city alone." in str(server.requests[0]["messages"])
    assert server.keys == ["Bearer secret-1"]
    assert evaluate(CASES[:1], server.url, model="mock", cache=False, lenient=True).passed


def test_a_model_as_judge_of_a_rubric(evaluate: Evaluate, model: Callable[[str], Model]) -> None:
    judge = model('{"reason": "it is short", "met": true}')
    cases = [Case("Write.", rubric=["is short", "is polite"], id="write")]
    result = evaluate(cases, lambda question: "Hello.", judge=Endpoint(judge.url, "mock"), lenient=True)
    assert result.passed and len(judge.requests) == 2


def test_a_remote_agent(evaluate: Evaluate, model: Callable[[str], Model]) -> None:
    server = model("Paris")
    result = evaluate(CASES[:1], f"a2a+{server.agent_url}", lenient=True)
    assert result.passed, result.summary()
    assert server.requests[0]["method"] == "message/send"
    with pytest.raises(touchstone.InvalidArguments, match="omit config"):
        evaluate(CASES[:1], f"a2a+{server.agent_url}", config="touchstone.toml")


def test_a_command(evaluate: Evaluate, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import json, sys\nfor line in sys.stdin:\n    question = json.loads(line)\n"
        "    print(json.dumps({'id': question['id'], 'output': 'Paris'}), flush=True)\n"
    )
    assert evaluate(CASES[:1], f"python3 {program}", lenient=True).passed


def test_files(evaluate: Evaluate, tmp_path: Path) -> None:
    table = tmp_path / "capitals.csv"
    table.write_text("id,input,expected\nfrance,Capital of France?,Paris\nitaly,Capital of Italy?,Rome\n")
    result = evaluate(table, right)
    assert result.report["suite"]["suiteId"].endswith(".capitals") and result.count("passed") == 2
    contents = [(task.id, task.input, task.expected) for task in result.tasks]
    assert contents[1] == ("italy", "Capital of Italy?", "Rome")
    scored = evaluate(str(table), right, pass_score=0.1)
    assert [(task.id, task.input, task.expected) for task in scored.tasks] == contents
    assert scored.pass_score == 0.1 and scored.count("passed") == 2
    with pytest.raises(touchstone.InvalidCases, match=r"none\.csv"):
        evaluate(tmp_path / "none.csv", right)


def test_a_data_frame(evaluate: Evaluate) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"input": [1, 2], "expected": ["2", "5"], "match": ["exact", None]})
    result = evaluate(frame, lambda n: str(n * 2))
    rows = result.to_pandas()
    assert list(rows.outcome) == ["passed", "failed"]
    assert rows.loc[1, "expected"] == "5" and rows.loc[1, "actual"] == "4"
    assert list(rows.input) == [1, 2] and rows.loc[0, "expected"] == "2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"pass_score": 2}, "pass_score must be between 0 and 1, got 2"),
        ({"agent": "http://127.0.0.1:1/v1"}, "needs the name of a model"),
        ({"agent": 3}, "must be a function, a URL or a command, got int"),
        ({"agent": lambda: "x"}, "takes no argument"),
        ({"judge": "http://127.0.0.1:1/v1"}, "add judge_model"),
        ({"lenient": True, "trials": 2}, "omit one of them"),
        ({"baseline": "run_0199"}, "run_0199"),
        ({"baseline_key": "ci.pub"}, "baseline_key has no effect without baseline"),
        ({"baseline": "latest", "baseline_key": [5]}, "baseline_key must be a file, got int"),
        ({"baseline": 5}, "baseline must be a Result or the id of a run, got int"),
        ({"trials": "3"}, "trials must be a number, got '3'"),
        ({"trials": 2.5}, "trials must be an integer, got 2.5"),
        ({"pass_score": "0.5"}, "pass_score must be between 0 and 1, got '0.5'"),
        ({"match": "fuzzy"}, "match must be 'exact' or 'contains', got 'fuzzy'"),
        ({"agent": " "}, "the agent is an empty text"),
        ({"judge": 5}, "judge must be a function or one or several endpoints, got 5"),
        ({"tags": "nightly"}, "tags must be a list"),
    ],
)
def test_wrong_arguments_are_refused_with_a_next_step(evaluate: Evaluate, options: dict[str, Any], message: str) -> None:
    arguments = {"cases": CASES, "agent": right, **options}
    with pytest.raises(touchstone.TouchstoneError, match=message):
        evaluate(**arguments)


def test_a_missing_command_is_named_once_in_the_summary(evaluate: Evaluate) -> None:
    result = evaluate(CASES[:2], "./missing-agent")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.summary().count("missing-agent: not found") == 1, result.summary()


def test_errors_do_not_name_the_temporary_folder(evaluate: Evaluate) -> None:
    with pytest.raises(touchstone.InvalidArguments) as caught:
        evaluate([{"input": "a", "assertions": [{"type": "nope"}]}], right)
    assert str(caught.value).startswith("right.scoring.json: /tasks/case-1/assertions/0/type"), caught.value
