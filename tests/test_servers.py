"""The servers that tests start."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.servers import RedisServer, free_port


def test_a_port_is_kept_from_other_programs_until_its_server_has_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    with socket.socket() as other, socket.socket() as third:
        # What the system would do for one that wants any port.
        other.bind(("127.0.0.1", 0))
        third.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        third.bind(("127.0.0.1", 0))
        taken = {other.getsockname()[1], third.getsockname()[1], *(free_port() for _ in range(50))}
    assert server.port not in taken
    with server:
        assert server.ask("PING") == b"PONG"
    with server:
        assert server.ask("PING") == b"PONG"
