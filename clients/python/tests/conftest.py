from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import touchstone

pytest_plugins = ["pytester"]

Evaluate = Callable[..., touchstone.Result]


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    """``evaluate`` with a data folder of its own."""
    return functools.partial(touchstone.evaluate, data=tmp_path / "data")


class Model(ThreadingHTTPServer):
    """A model endpoint, and an A2A agent, that answers every request with the same text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


    @property
    def agent_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/agent"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        model = self.server
        assert isinstance(model, Model)
        body = self.rfile.read(int(self.headers["content-length"]))
        model.requests.append(json.loads(body))
        model.keys.append(self.headers["authorization"])
        message = {"role": "assistant", "content": model.text}
        answer: dict[str, Any] = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "mock",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }
        if self.path == "/agent":
            parts = [{"kind": "text", "text": model.text}]
            said = {"kind": "message", "role": "agent", "messageId": "1", "parts": parts}
            answer = {"jsonrpc": "2.0", "id": model.requests[-1]["id"], "result": said}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def model() -> Iterator[Callable[[str], Model]]:
    started: list[Model] = []

    def start(text: str) -> Model:
        server = Model(text)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()
