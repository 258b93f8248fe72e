"""Refuses connections to other machines, such as telemetry. The name is what Python imports at its start."""

import ipaddress
import socket
import sys


def refuse(event: str, arguments: tuple) -> None:
    if event == "socket.connect":
        _, address = arguments
        host = address[0] if isinstance(address, tuple) else "127.0.0.1"
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host in (None, "", "localhost", socket.gethostname()):
        return
    try:
        allowed = ipaddress.ip_address(host).is_loopback
    except ValueError:
        allowed = False
    if not allowed:
        # Frameworks catch the error, so the test looks for this line.
        print(f"REFUSED: a connection to {host}", file=sys.stderr, flush=True)
        raise PermissionError(f"a test must not connect to {host}")


sys.addaudithook(refuse)
