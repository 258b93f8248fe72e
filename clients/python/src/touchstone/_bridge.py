"""Answers the questions of the program in this process.

The program starts a command line as the agent (docs/agent-commands.md). Here the command line only
copies lines between the program and two pipes of this process. It names the pipes by environment
variables, so it is the same in every run: its digest is the identity of the agent.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import json
import os
import re
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, get_type_hints

from . import _json
from ._errors import InvalidArguments
from ._types import Agent, Answer, Judge, Judged, Judgement, Question

MAX_LINE = 8 << 20
"""Bytes that the program accepts as one line."""
T = TypeVar("T")


class AnswerTooLarge(ValueError):
    """The answer has more bytes than the program accepts."""


class Loop:
    """The event loop of async functions: that of the caller, or one in a thread of its own."""

    def __init__(self, running: asyncio.AbstractEventLoop | None = None) -> None:
        self._running = running
        self._own: asyncio.AbstractEventLoop | None = None
        self._pending: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs it to its end; called from other threads than that of the loop."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop())
        with self._lock:
            self._pending.add(future)
        try:
            return future.result()
        finally:
            with self._lock:
                self._pending.discard(future)

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._running is not None:
            return self._running
        with self._lock:
            if self._own is None:
                self._own = asyncio.new_event_loop()
                threading.Thread(target=_run_to_end, args=(self._own,), name="touchstone-loop", daemon=True).start()
            return self._own

    def close(self) -> None:
        """Cancels what is left, such as an answer after its timeout."""
        with self._lock:
            pending = list(self._pending)
        for future in pending:
            future.cancel()
        own = self._own
        if own is None:
            return

        async def end() -> None:
            tasks = asyncio.all_tasks(own) - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await own.shutdown_asyncgens()
            own.stop()

        asyncio.run_coroutine_threadsafe(end(), own)


def _run_to_end(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _awaited(value: Any) -> Any:
    return await value


def call(function: Callable[[Any], Any], argument: Any, loop: Loop) -> Any:
    """The result of a function, sync or async."""
    result = function(argument)
    return loop.run(_awaited(result)) if inspect.isawaitable(result) else result


class Bridge:
    """Two pipes, and a thread that reads questions from one and answers each in its own thread."""

    def __init__(self, variable: str, label: str, reply: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._reply = reply
        self._context = contextvars.copy_context()
        self._questions, ask = os.pipe()
        answer, self._answers = os.pipe()
        self._lent = [ask, answer]
        self._started = False
        self._lock = threading.Lock()
        self.variables = {f"{variable}_ASK": str(ask), f"{variable}_ANSWER": str(answer)}
        # A shell gives background jobs no standard input, hence the copy. `/dev/fd` also accepts
        # numbers above 9, unlike `>&`.
        self.command = (
            f'exec 3<&0; cat <&3 >"/dev/fd/${variable}_ASK" & exec cat "/dev/fd/${variable}_ANSWER" # {label}'
        )

    @property
    def pass_fds(self) -> list[int]:
        return list(self._lent)

    def start(self) -> None:
        """Begins to answer, once the program has the other ends of the pipes."""
        self._close_lent()
        self._started = True
        threading.Thread(target=self._serve, name="touchstone-questions", daemon=True).start()

    def close(self) -> None:
        """Closes the pipes. A started reader closes its own when the program ends."""
        self._close_lent()
        if not self._started:
            os.close(self._questions)
            self._started = True
        with self._lock:
            if self._answers >= 0:
                os.close(self._answers)
                self._answers = -1

    def _close_lent(self) -> None:
        while self._lent:
            os.close(self._lent.pop())

    def _serve(self) -> None:
        with os.fdopen(self._questions, encoding="utf-8") as lines:
            for line in lines:
                context = self._context.copy()
                thread = threading.Thread(
                    target=context.run, args=(self._answer, line), name="touchstone-question", daemon=True
                )
                # One thread per question, because a function may hang until after its timeout. The
                # program asks at most eight at once.
                thread.start()

    def _answer(self, line: str) -> None:
        question = json.loads(line)
        reply = {"id": question["id"], **self._reply(question)}
        data = (_json.dumps(reply) + "\n").encode()
        with self._lock:
            try:
                while data and self._answers >= 0:
                    data = data[os.write(self._answers, data) :]
            except BrokenPipeError:
                pass  # The program has ended.


def label(function: Callable[..., Any], version: str | None) -> str:
    """The name of a function in the identity of the agent."""
    named: Any = inspect.unwrap(function)
    while isinstance(named, functools.partial):
        named = inspect.unwrap(named.func)
    target = named if hasattr(named, "__qualname__") else type(named)
    name = str(target.__qualname__)
    code = getattr(named, "__code__", None)
    if "<lambda>" in name and code is not None:
        name += f"@{code.co_firstlineno}"
    text = f"python:{getattr(target, '__module__', None)}:{name}"
    if version is not None:
        text += f" version {version}"
    return re.sub(r"[^\w.:<>@ +-]", "_", text)


def asks_whole(function: Callable[..., Any]) -> bool:
    """Whether the first parameter is a :class:`Question`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some functions written in C have no signature.
        return False
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    if not names:
        raise InvalidArguments("the agent takes no argument", remedy="let it take the input of the task")
    return is_question(function, names[0])


def is_question(function: Callable[..., Any], parameter: str) -> bool:
    """Whether the parameter has the annotation :class:`Question`."""
    target = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)
    try:
        hint = get_type_hints(target).get(parameter)
    except Exception:  # An annotation may name what does not exist at run time.
        hint = inspect.signature(function).parameters[parameter].annotation
    return hint is Question or hint in ("Question", "touchstone.Question")


def question_of(raw: dict[str, Any]) -> Question:
    return Question(
        input=raw["input"],
        messages=raw.get("messages", ()),
        tools=raw.get("tools", ()),
        turn=raw.get("turn", 0),
        attachments=raw.get("attachments", ()),
        response_schema=raw.get("responseSchema"),
        definitions=raw.get("definitions", ()),
        raw=raw,
    )


class Raised:
    """The exceptions of agent and judge, by the input of the task."""

    def __init__(self) -> None:
        self._by_input: dict[str, list[BaseException]] = {}
        self._lock = threading.Lock()

    def keep(self, given: Any, exception: BaseException) -> None:
        with self._lock:
            self._by_input.setdefault(_json.key(given), []).append(exception)

    def of(self, given: Any) -> BaseException | None:
        """The last one, because the program repeats some questions."""
        found = self._by_input.get(_json.key(given))
        return found[-1] if found else None


def _fault(exception: BaseException) -> dict[str, Any]:
    return {"error": "".join(traceback.format_exception_only(exception)).strip()[:2000]}


def replies_of_agent(agent: Agent, loop: Loop, raised: Raised) -> Callable[[dict[str, Any]], dict[str, Any]]:
    whole = asks_whole(agent)

    def reply(raw: dict[str, Any]) -> dict[str, Any]:
        try:
            answered = call(agent, question_of(raw) if whole else raw["input"], loop)
            found = wire(answered)
            size = len(_json.dumps(found).encode())
            if size > MAX_LINE - 64:
                raise AnswerTooLarge(f"the answer has {size} bytes, and at most {MAX_LINE - 64} are accepted")
            return found
        except BaseException as exception:  # `SystemExit` of a thread would leave the question open.
            raised.keep(raw["input"], exception)
            return _fault(exception)

    return reply


def wire(answered: Any) -> dict[str, Any]:
    """An answer as the program reads it."""
    if not isinstance(answered, Answer):
        return {"output": answered}
    if answered.refused:
        found: dict[str, Any] = {"refused": True}
    elif answered.tool_calls:
        calls = []
        for made in answered.tool_calls:
            called: dict[str, Any] = {"tool": made.tool, "arguments": dict(made.arguments)}
            if made.id is not None:
                called["id"] = made.id
            calls.append(called)
        found = {"toolCalls": calls}
    else:
        found = {"output": answered.output}
    if answered.input_tokens is not None or answered.output_tokens is not None:
        found["usage"] = {"inputTokens": answered.input_tokens or 0, "outputTokens": answered.output_tokens or 0}
    return found


def replies_of_judge(judge: Judge, loop: Loop, raised: Raised) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def reply(raw: dict[str, Any]) -> dict[str, Any]:
        try:
            found = judgement(call(judge, judged_of(raw), loop))
        except BaseException as exception:
            raised.keep(raw["input"], exception)
            return _fault(exception)
        decided: dict[str, Any] = {"pass": found.passed}
        if found.score is not None:
            decided["score"] = found.score
        if found.reason is not None:
            decided["reason"] = found.reason
        return decided

    return reply


def judged_of(raw: dict[str, Any]) -> Judged:
    match = (raw.get("expected") or {}).get("match") or {}
    # What the suite says if only assertions decide.
    nothing = match.get("strategy") == "contains" and match.get("value") == ""
    return Judged(
        task=raw["task"],
        input=raw["input"],
        output=raw.get("output"),
        expected=None if nothing else match.get("value"),
        name=raw["name"],
        config=raw.get("config"),
        tool_calls=raw.get("toolCalls", ()),
        latency_ms=raw.get("latencyMs"),
        cost_usd=raw.get("costUsd"),
    )


def judgement(found: Any) -> Judgement:
    """What a judge returned: a score passes from one half on."""
    if isinstance(found, Judgement):
        decided = found
    elif isinstance(found, bool) or type(found).__name__ == "bool_":
        decided = Judgement(bool(found))
    elif isinstance(found, (int, float)):
        decided = Judgement(found >= 0.5, float(found))
    else:
        raise TypeError(f"a judge must return a bool, a score or a touchstone.Judgement, not {type(found).__qualname__}")
    if decided.score is not None and not 0 <= decided.score <= 1:
        raise ValueError(f"the score of a judge must be between 0 and 1, got {decided.score}")
    return decided
