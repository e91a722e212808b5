"""What a task's process does before its first rows."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from reshape.machine.task_process import prepare


def test_what_came_is_acknowledged_on_connections_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """A connection on which both sides speak is one where the system waits before it acknowledges."""
    listening = socket.create_server(("127.0.0.1", 0))
    spark = socket.create_connection(listening.getsockname())
    task, _ = listening.accept()
    unix, other = socket.socketpair()
    with listening, spark, task, unix, other, (tmp_path / "file").open("w"):
        for _ in range(3):
            spark.sendall(b"function")
            assert task.recv(100) == b"function"
            task.sendall(b"answer")
            assert spark.recv(100) == b"answer"
        assert _waits(task)
        before = os.listdir("/proc/self/fd")
        prepare()
        assert not _waits(task)
        assert os.listdir("/proc/self/fd") == before
        spark.sendall(b"rows")
        assert task.recv(100) == b"rows"


def _waits(connection: socket.socket) -> bool:
    return not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
