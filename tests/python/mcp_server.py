"""A tool server made with the SDK of the Model Context Protocol: another implementation than the one the host uses.

Without an argument it speaks over standard input and output; with one, streamable HTTP on a free port, which it writes to
that file.
"""

import asyncio
import os
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("crm")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def lookup(account: str) -> dict[str, str]:
    """The plan of an account."""
    if account == "nobody":
        raise ValueError("no such account")
    return {"account": account, "plan": "gold"}


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
def close(account: str) -> str:
    """Closes an account."""
    raise SystemExit("nobody may call this")


def over_http(file: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app()
    config = uvicorn.Config(app, log_level="error")
    with open(file + ".new", "w") as out:
        out.write(str(listener.getsockname()[1]))
    os.rename(file + ".new", file)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if len(sys.argv) > 1:
    over_http(sys.argv[1])
else:
    server.run()
