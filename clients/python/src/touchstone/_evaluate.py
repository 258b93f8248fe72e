"""``evaluate``: from cases and an agent to a result."""

from __future__ import annotations

import asyncio
import contextlib
import numbers
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _binary, _bridge, _cases, _results
from ._errors import InvalidArguments, TouchstoneError
from ._program import Done, Process, Program
from ._progress import Line, Progress, Reader
from ._results import Failure, Result, Task, Verdict
from ._types import Agent, Cases, Endpoint, Judge, Match, Provider, StrPath

_VERDICTS = {0: Verdict.PASS, 1: Verdict.FAIL, 4: Verdict.INCONCLUSIVE}
_LATEST = ("latest", "latest-passed")
_A2A = re.compile(r"a2a\+(https?://.+)\Z")
_URL = re.compile(r"https?://")
NO_PROMPT = "Answer the request."


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _paths(given: StrPath | Sequence[StrPath] | None) -> Sequence[StrPath]:
    if given is None:
        return ()
    return given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


@dataclass
class _Request:
    """The arguments of :func:`evaluate`."""

    cases: Cases
    agent: Agent | Endpoint | str
    judge: Judge | Endpoint | Sequence[Endpoint] | str | None = None
    baseline: Result | StrPath | None = None
    baseline_key: StrPath | Sequence[StrPath] | None = None
    name: str | None = None
    version: str | None = None
    match: Match = "exact"
    pass_score: float | None = None
    trials: int = 1
    concurrency: int | None = None
    timeout: float | None = None
    max_cost_usd: float | None = None
    lenient: bool = False
    cache: bool = True
    prompt: str | None = None
    model: str | None = None
    model_provider: Provider = "openai"
    judge_model: str | None = None
    tags: Sequence[str] = ()
    data: StrPath | None = None
    config: StrPath | None = None
    progress: bool | None = None
    on_progress: Callable[[Progress], Any] | None = None

    def check(self) -> None:
        for name, value, least in (
            ("trials", self.trials, 1),
            ("concurrency", self.concurrency, 1),
            ("timeout", self.timeout, 0.001),
            ("max_cost_usd", self.max_cost_usd, 0),
        ):
            if value is None:
                continue
            if not _is_number(value):
                raise InvalidArguments(f"{name} must be a number, got {value!r}", remedy="correct it")
            if not value >= least:
                raise InvalidArguments(f"{name} must be at least {least}, got {value}", remedy="correct it")
            if isinstance(least, int) and name != "max_cost_usd" and value % 1 != 0:
                raise InvalidArguments(f"{name} must be an integer, got {value!r}", remedy="correct it")
        if self.pass_score is not None and not (_is_number(self.pass_score) and 0 <= self.pass_score <= 1):
            raise InvalidArguments(f"pass_score must be between 0 and 1, got {self.pass_score!r}", remedy="correct it")
        if self.match not in ("exact", "contains"):
            raise InvalidArguments(f"match must be 'exact' or 'contains', got {self.match!r}", remedy="correct it")
        if not (callable(self.agent) or isinstance(self.agent, (str, Endpoint))):
            raise InvalidArguments(
                f"the agent must be a function, a URL or a command, got {type(self.agent).__qualname__}",
                remedy="pass a function that takes the input of a task",
            )
        if isinstance(self.agent, str) and not self.agent.strip():
            raise InvalidArguments("the agent is an empty text", remedy="pass a function, a URL or a command")
        if not (
            self.judge is None
            or callable(self.judge)
            or isinstance(self.judge, (str, Endpoint))
            or (isinstance(self.judge, Sequence) and all(isinstance(one, Endpoint) for one in self.judge))
        ):
            raise InvalidArguments(
                f"judge must be a function or one or several endpoints, got {self.judge!r}",
                remedy="pass a function of a touchstone.Judged",
            )
        if not (self.baseline is None or isinstance(self.baseline, (Result, str, os.PathLike))):
            raise InvalidArguments(
                f"baseline must be a Result or the id of a run, got {type(self.baseline).__qualname__}",
                remedy="pass the result of an earlier evaluate",
            )
        for key in _paths(self.baseline_key):
            if not isinstance(key, (str, os.PathLike)):
                raise InvalidArguments(
                    f"baseline_key must be a file, got {type(key).__qualname__}", remedy="pass the path of a public key"
                )
        if self.baseline_key is not None and self.baseline is None:
            raise InvalidArguments("baseline_key has no effect without baseline", remedy="add baseline=, or omit it")
        if isinstance(self.tags, str):
            raise InvalidArguments(f"tags must be a list, got the text {self.tags!r}", remedy=f"write [{self.tags!r}]")
        if os.environ.get("TOUCHSTONE_SERVER") and (callable(self.agent) or callable(self.judge)):
            raise InvalidArguments(
                "TOUCHSTONE_SERVER is set, but another host cannot call a function of this process",
                remedy="unset TOUCHSTONE_SERVER",
            )
        if self.lenient and self.trials > 1:
            raise InvalidArguments("lenient does not go with trials", remedy="omit one of them")


def evaluate(
    cases: Cases,
    agent: Agent | Endpoint | str,
    *,
    judge: Judge | Endpoint | Sequence[Endpoint] | str | None = None,
    baseline: Result | StrPath | None = None,
    baseline_key: StrPath | Sequence[StrPath] | None = None,
    name: str | None = None,
    version: str | None = None,
    match: Match = "exact",
    pass_score: float | None = None,
    trials: int = 1,
    concurrency: int | None = None,
    timeout: float | None = None,
    max_cost_usd: float | None = None,
    lenient: bool = False,
    cache: bool = True,
    prompt: str | None = None,
    model: str | None = None,
    model_provider: Provider = "openai",
    judge_model: str | None = None,
    tags: Sequence[str] = (),
    data: StrPath | None = None,
    config: StrPath | None = None,
    progress: bool | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
) -> Result:
    """Evaluates an agent and returns the result, whatever the verdict.

    ``cases``
        A file (a suite, CSV, JSON lines, YAML, Parquet), a pack folder, or rows: dicts,
        :class:`Case` or a DataFrame with ``input`` and ``expected``.
    ``agent``
        A function of the input, sync or async; an :class:`Endpoint`; the URL of one with
        ``model=``; an A2A agent as ``a2a+https://…``; or a command.
    ``judge``
        A function of a :class:`Judged` that returns a bool, a score or a :class:`Judgement`; or one
        or several endpoints of models.
    ``baseline``
        An earlier :class:`Result`, the id of a run, ``"latest"``, ``"latest-passed"``, an
        attestation (``.jsonl``), or a log of Inspect. The first run has no latest one and is not
        compared.
    ``baseline_key``
        Public key file, or several, one of which must have signed the attestation [default:
        ``attest.trusted_keys`` of the configuration].
    ``name``, ``version``
        Name of the agent [default: that of the function or file]. Runs of the same name are
        comparable. ``version`` distinguishes versions of a function.
    ``pass_score``
        Score from which the agent passes [default: that of the suite, else 1].
    ``trials``, ``concurrency``, ``timeout``, ``max_cost_usd``
        Runs of every task; tasks at once [at most 8 for a function]; seconds per task; limit of the
        cost.
    ``lenient``
        Pass if the score reaches the pass score, even if its interval does not.
    ``progress``, ``on_progress``
        Show progress on standard error [default: if it is a terminal]; a function that is called
        after each task, in another thread.

    Raises ``InvalidCases`` and ``InvalidArguments`` for wrong arguments, and ``TouchstoneError`` if
    the evaluation cannot be completed.
    """
    return _Evaluation(_Request(**locals())).run()


async def aevaluate(cases: Cases, agent: Agent | Endpoint | str, **options: Any) -> Result:
    """As :func:`evaluate`, from async code. Async functions run on the loop of the caller."""
    evaluation = _Evaluation(_Request(cases=cases, agent=agent, **options), asyncio.get_running_loop())
    waiting = asyncio.ensure_future(asyncio.to_thread(evaluation.run))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        evaluation.interrupt()
        with contextlib.suppress(TouchstoneError):
            await waiting
        raise


class _Evaluation:
    def __init__(self, request: _Request, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._request = request
        self._loop = _bridge.Loop(loop)
        self._raised = _bridge.Raised()
        self._bridges: list[_bridge.Bridge] = []
        self._environment = dict(os.environ)
        self._process: Process | None = None
        self._interrupted = threading.Event()
        self._folder = ""
        self._suite: Path | None = None
        """The cases as a file, unless they are a pack folder."""

    def interrupt(self) -> None:
        self._interrupted.set()
        if self._process is not None:
            self._process.interrupt()

    def run(self) -> Result:
        self._request.check()
        binary = _binary.find()
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="touchstone-")))
            self._folder = str(folder)
            stack.callback(self._loop.close)
            stack.callback(self._close_bridges)
            options = [*self._options(folder)]
            program = Program(binary, options, self._environment)
            try:
                arguments = ["eval", *self._arguments(folder, program)]
                done = self._follow(program, arguments, stack)
                notes = [note for note in done.notes if str(folder) not in note]
                return self._result(program, done, notes)
            except TouchstoneError as error:
                raise error.without(str(folder)) from error.__cause__

    def _close_bridges(self) -> None:
        for bridge in self._bridges:
            bridge.close()

    def _options(self, folder: Path) -> Iterator[str]:
        request = self._request
        remote = _A2A.match(request.agent) if isinstance(request.agent, str) else None
        if remote is not None:
            if request.config is not None:
                raise InvalidArguments(
                    "an A2A agent is configured by its URL, so config has no effect",
                    remedy="omit config, or name the agent in its [[models]]",
                )
            file = folder / "touchstone.toml"
            quoted = remote[1].replace("\\", "\\\\").replace('"', '\\"')
            file.write_text(f'[[models]]\nclass = "*"\nprovider = "a2a"\nbase_url = "{quoted}"\n', encoding="utf-8")
            yield from ("--config", str(file))
        elif request.config is not None:
            yield from ("--config", os.fspath(request.config))
        if request.data is not None:
            yield from ("--data", os.fspath(request.data))

    def _arguments(self, folder: Path, program: Program) -> Iterator[str]:
        request = self._request
        agent = request.agent
        name = _cases.slug(request.name or self._default_name())
        needs_prompt = not callable(agent) and (isinstance(agent, Endpoint) or bool(_URL.match(agent) or _A2A.match(agent)))
        yield from self._subject(folder, program, name, needs_prompt)
        yield from self._agent()
        yield from self._judge()
        if isinstance(request.baseline, Result):
            yield f"--baseline={request.baseline.run_id}"
        elif request.baseline is not None:
            yield f"--baseline={os.fspath(request.baseline)}"
            if request.baseline in _LATEST:
                yield "--baseline-optional"
        yield from (f"--baseline-key={os.fspath(key)}" for key in _paths(request.baseline_key))
        if request.trials > 1:
            yield f"--trials={request.trials}"
        if request.concurrency is not None:
            yield f"--concurrency={request.concurrency}"
        elif callable(agent):
            yield "--concurrency=8"
        if request.timeout is not None:
            yield f"--timeout={max(1, round(request.timeout * 1000))}ms"
        if request.max_cost_usd is not None:
            yield f"--max-cost-usd={request.max_cost_usd}"
        for flag, is_set in (("--lenient", request.lenient), ("--no-cache", not request.cache)):
            if is_set:
                yield flag
        yield from (f"--tag={tag}" for tag in request.tags)
        yield "--no-github"

    def _default_name(self) -> str:
        request = self._request
        if _cases.is_path(request.cases):
            return Path(os.fspath(request.cases)).stem  # type: ignore[arg-type]
        if callable(request.agent):
            target = request.agent
            found = getattr(target, "__name__", None) or type(target).__name__
            return "agent" if found == "<lambda>" else str(found)
        return "agent"

    def _subject(self, folder: Path, program: Program, name: str, needs_prompt: bool) -> Iterator[str]:
        request = self._request
        if _cases.is_path(request.cases):
            path = os.fspath(request.cases)  # type: ignore[arg-type]
            if os.path.isdir(path):
                for option, given in (("pass_score", request.pass_score), ("prompt", request.prompt)):
                    if given is not None:
                        raise InvalidArguments(f"{option} has no effect on a pack folder", remedy="set it in the pack")
                yield path
                return
            file = self._imported(Path(path), folder, program, name)
        else:
            judged = callable(request.judge)
            file = _cases.write_suite(
                request.cases, folder, name=name, match=request.match, pass_score=request.pass_score, judged=judged
            )
        self._suite = file
        yield f"--cases={file}"
        if _cases.is_path(request.cases) and request.pass_score is None:
            yield f"--match={request.match}"
        if request.prompt is not None or needs_prompt:
            prompt = folder / f"{name}.md"
            prompt.write_text(request.prompt or NO_PROMPT, encoding="utf-8")
            yield f"--prompt={prompt}"

    def _imported(self, path: Path, folder: Path, program: Program, name: str) -> Path:
        """The file, as a suite with the pass score if one is given."""
        request = self._request
        if request.pass_score is None:
            return path
        suite = folder / f"{name}.json"
        program.run(
            *("suite", "import", str(path), f"--match={request.match}"),
            *(f"--pass-score={request.pass_score}", f"--out={suite}"),
        )
        return suite

    def _agent(self) -> Iterator[str]:
        request = self._request
        agent = request.agent
        if isinstance(agent, str) and _URL.match(agent):
            if request.model is None:
                raise InvalidArguments(
                    f"the agent {agent} needs the name of a model",
                    remedy="add model=…, or write a2a+https://… for an A2A agent",
                )
            agent = Endpoint(agent, request.model, request.model_provider)
        if isinstance(agent, Endpoint):
            yield from (f"--model-url={agent.url}", f"--model={agent.model}", f"--model-provider={agent.provider}")
            if agent.api_key is not None:
                self._environment["TOUCHSTONE_MODEL_API_KEY"] = agent.api_key
        elif isinstance(agent, str):
            if not _A2A.match(agent):
                yield f"--agent-command={agent}"
        else:
            replies = _bridge.replies_of_agent(agent, self._loop, self._raised)
            yield f"--agent-command={self._bridge('TOUCHSTONE_PYTHON', _bridge.label(agent, request.version), replies)}"

    def _judge(self) -> Iterator[str]:
        request = self._request
        judge = request.judge
        if judge is None:
            return
        if isinstance(judge, str):
            if request.judge_model is None:
                raise InvalidArguments(f"the judge {judge} needs the name of a model", remedy="add judge_model=…")
            judge = Endpoint(judge, request.judge_model)
        if callable(judge):
            replies = _bridge.replies_of_judge(judge, self._loop, self._raised)
            command = self._bridge("TOUCHSTONE_PYTHON_JUDGE", _bridge.label(judge, None), replies)
            yield f"--assert-command={command}"
            return
        judges = [judge] if isinstance(judge, Endpoint) else list(judge)
        if len({one.api_key for one in judges}) > 1:
            raise InvalidArguments(
                "the judges have different API keys, and an evaluation has one for all judges",
                remedy="give all of them one api_key, or configure the judges in a file and pass config=",
            )
        for one in judges:
            yield from (f"--judge-url={one.url}", f"--judge-model={one.model}", f"--judge-provider={one.provider}")
            if one.api_key is not None:
                self._environment["TOUCHSTONE_JUDGE_API_KEY"] = one.api_key

    def _bridge(self, variable: str, label: str, reply: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
        bridge = _bridge.Bridge(variable, label, reply)
        self._bridges.append(bridge)
        self._environment.update(bridge.variables)
        return bridge.command

    def _follow(self, program: Program, arguments: list[str], stack: contextlib.ExitStack) -> Done:
        request = self._request
        shown = sys.stderr.isatty() if request.progress is None else request.progress
        line = Line() if shown and sys.stderr.isatty() else None

        def report(progress: Progress) -> None:
            if line is not None:
                line(progress)
            if request.on_progress is not None:
                request.on_progress(progress)

        reader = Reader(report, self.interrupt)
        stack.callback(reader.close)
        lent = [descriptor for bridge in self._bridges for descriptor in bridge.pass_fds]
        process = program.start([*arguments, f"--progress={reader.path}"], [*lent, reader.lent])
        self._process = process
        for bridge in self._bridges:
            bridge.start()
        reader.start()
        if self._interrupted.is_set():
            process.interrupt()
        try:
            done = process.wait()
        finally:
            reader.close()
            if line is not None:
                line.clear()
        if reader.exception is not None:
            raise reader.exception
        return done

    def _result(self, program: Program, done: Done, notes: list[str]) -> Result:
        document = done.document()
        if "experimentId" in document:
            runs = list(document["runIds"])
            reports = [program.run("run", "show", run, "--no-github") for run in runs]
            statistics = document["statistics"]
        else:
            runs, reports = [document["runId"]], [document]
            statistics = program.run("run", "statistics", runs[0])
        first = reports[0]
        if first["status"] == "cancelled":
            raise TouchstoneError("the evaluation was interrupted", remedy="evaluate again", code="cancelled")
        contents = self._contents(program)
        tasks: list[Task] = []
        failures: list[Failure] = []
        for trial, (run, report) in enumerate(zip(runs, reports), 1):
            tasks += _results.tasks_of(report, trial, contents)
            failures += self._failures(program, run, trial, tasks)
        gate = statistics["gate"]
        costs = [report["summary"].get("totalCostUsd") for report in reports]
        return Result(
            run_ids=tuple(runs),
            verdict=_VERDICTS[done.code],
            reasons=tuple(first["reasons"] if len(runs) == 1 else gate.get("reasons", ())),
            score=_results.Estimate(
                gate["score"] if gate.get("score") is not None else first["summary"]["aggregateScore"],
                gate.get("low"),
                gate.get("high"),
                gate.get("method"),
            ),
            pass_rate=_results.estimate(statistics.get("pass_rate")),
            pass_score=first["suite"].get("passScore", 1.0),
            tasks=tuple(tasks),
            failures=tuple(failures),
            comparison=self._comparison(program, first),
            cost_usd=None if None in costs else sum(costs),
            duration_ms=first.get("durationMs"),
            notes=(*first.get("notes", ()), *notes),
            exit_code=done.code,
            report=first,
            statistics=statistics,
        )

    def _contents(self, program: Program) -> _results.Contents:
        if self._suite is None:
            return {}
        if found := _cases.contents(self._suite):
            return found
        # Tasks of a table have their ids only once it is imported.
        file = Path(self._folder, "contents.json")
        with contextlib.suppress(TouchstoneError):
            program.run("suite", "import", str(self._suite), f"--match={self._request.match}", f"--out={file}")
        return _cases.contents(file)

    def _failures(self, program: Program, run: str, trial: int, tasks: list[Task]) -> list[Failure]:
        ended = [task for task in tasks if task.trial == trial and task.outcome != "passed"]
        if not ended:
            return []
        try:
            documents = program.lines("run", "show", run, "--failed")
        except TouchstoneError:
            # The content is not retained (`content.retain`).
            return [Failure(task.id, task.outcome, task.score, reason=task.reason, trial=trial) for task in ended]
        return [
            _results.failure_of(document, trial, self._raised.of(document.get("input"))) for document in documents
        ]

    def _comparison(self, program: Program, report: dict[str, Any]) -> _results.Comparison | None:
        # A file is compared by the command, a run by the host.
        if (compared := report.get("comparison")) is not None:
            return _results.comparison_of(compared, compared["baseline"].get("runId", str(self._request.baseline)))
        regression = report["summary"].get("regression")
        if regression is None:
            return None
        baseline = regression["baselineRunId"]
        return _results.comparison_of(program.run("compare", baseline, report["runId"]), baseline)
