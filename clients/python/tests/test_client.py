from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import touchstone
from touchstone import Client, HostError

from .conftest import Evaluate
from .test_docs import blocks

PROGRAM = os.environ.get("TOUCHSTONE_BIN", "touchstone")
CASES = [{"id": "a", "input": "a", "expected": "a"}, {"id": "b", "input": "b", "expected": "c"}]


@pytest.fixture
def result(evaluate: Evaluate) -> touchstone.Result:
    return evaluate(CASES, lambda text: text, tags=["nightly"])


@pytest.fixture(params=["1.0", "2.0"])
def client(result: touchstone.Result, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A host over the data folder of the evaluation: with OpenWOP v1, and without it."""
    config = tmp_path / "host.toml"
    config.write_text(f'[openwop]\npreferred_version = "{request.param}"\n')
    options = [PROGRAM, "--config", str(config), "--data", str(tmp_path / "data")]
    key = subprocess.run(
        [*options, "key", "create", "--tenant", "default", "--scope", "all"], capture_output=True, text=True, check=True
    ).stdout.strip()
    host = subprocess.Popen([*options, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert host.stdout is not None
        for line in host.stdout:
            if "listening on " in line:
                yield Client(line.split("listening on ")[1].strip(), key)
                break
        else:
            pytest.fail("the host did not start")
    finally:
        host.terminate()
        host.wait(60)


def test_a_host_is_read(client: Client, result: touchstone.Result) -> None:
    run = result.run_id
    assert [row["runId"] for row in client.runs(tag="nightly")] == [run]
    assert list(client.runs(tag="other")) == []
    assert client.run(run)["status"] == "completed"
    assert client.report(run)["summary"]["passedCount"] == 1
    assert client.statistics(run)["n_tasks"] == 2
    assert client.task(run, "b")["actual"] == "b"
    kinds = [event["type"] for event in client.events(run)]
    assert kinds.count("eval.scored") == 2 and kinds[-1] == "run.completed"
    assert client.wait(run)["runId"] == run
    with pytest.raises(HostError) as raised:
        client.report("run_0199c0de/../../x")
    assert raised.value.status == 404
    with pytest.raises(HostError, match="TOUCHSTONE_KEY") as raised:
        Client(client.url, "tsk_wrong").report(run)
    assert raised.value.status == 401 and raised.value.code == "unauthenticated"
    with pytest.raises(HostError) as raised:
        client.create_run("vendor.acme.evals.none@1.0.0", "vendor.acme.none.default", evalConcurrency=2)
    assert raised.value.status == 400 and raised.value.code


def test_a_lost_stream_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [
        [b'id: 1\n', b'data: {"type": "eval.started"}\n', b"\n"],
        [b": comment\n", b"id: 2\r\n", b'data: {"type":\r\n', b'data: "run.failed"}\r\n', b"\r\n", b"id: 3\n"],
    ]
    resumed: list[str | None] = []

    class Stream(list[bytes]):
        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def opened(self: Client, method: str, path: str, body: object, headers: dict[str, str]) -> Stream:
        resumed.append(headers.get("Last-Event-ID"))
        return Stream(streams[len(resumed) - 1])

    monkeypatch.setattr(Client, "_open", opened)
    monkeypatch.setattr(Client, "run", lambda self, run: {"status": "running"})
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    events = list(Client("http://127.0.0.1:1").events("run_1"))
    assert [event["type"] for event in events] == ["eval.started", "run.failed"]
    assert resumed == [None, "1"]


def test_the_example_of_the_page(client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TOUCHSTONE_SERVER", client.url)
    monkeypatch.setenv("TOUCHSTONE_KEY", str(client._key))
    (example,) = blocks("python host")
    exec(compile(example, "example", "exec"), {"touchstone": touchstone})
    assert "run_" in capsys.readouterr().out


def test_errors_have_a_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOUCHSTONE_SERVER", raising=False)
    with pytest.raises(touchstone.InvalidArguments, match="set TOUCHSTONE_SERVER"):
        Client()
    with pytest.raises(touchstone.TouchstoneError, match="check the URL"):
        Client("http://127.0.0.1:1", "tsk_secret").run("run_1")
    assert "secret" not in repr(Client("http://127.0.0.1:1", "tsk_secret"))
