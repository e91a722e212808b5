"""Machines of a cluster on this one: network namespaces, each with an address, a name and files of its own, joined by a
bridge in another one. Nothing of it is seen outside, and all of it goes with the processes that hold it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

# Addresses that are nobody's (RFC 5737).
NET = "192.0.2.{}"
BRIDGE = "bridge"
LIMIT_S = 30.0

# What a machine has from the start; it is there until its input ends, however this process does.
_HOLD = """
set -e
ip link set lo up
hostname "$1"
mkdir -p "$2"
mount -t tmpfs -o size=256m private "$2"
mount -t tmpfs -o size=256m private /dev/shm
echo there
exec cat
"""


class Machine:
    """``number``: the last part of its address. ``private``: a folder that each machine has a different one at."""

    def __init__(self, number: int, private: Path) -> None:
        self.name = f"machine-{number}"
        self.address = NET.format(number)
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c", _HOLD, "sh", self.name, str(private)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "there\n":
            assert self._holder.stderr is not None
            raise OSError(self._holder.stderr.read())

    @property
    def pid(self) -> int:
        """Of a process there."""
        return self._holder.pid

    def within(self, command: list[str]) -> list[str]:
        """A command that runs there; it ends with this process."""
        enter = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--uts"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", *command]

    def run(self, *command: str) -> None:
        done = subprocess.run(
            self.within([*command]), capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd="/"
        )
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr}")

    def end(self) -> None:
        self._holder.kill()
        self._holder.wait()
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            assert stream is not None
            stream.close()


class Network:
    """``hub``, where the bridge is, and so many other machines."""

    def __init__(self, machines: int, private: Path) -> None:
        self._all: list[Machine] = []
        try:
            for number in range(1, machines + 2):
                self._all.append(Machine(number, private))
            self.hub, *self.machines = self._all
            self.hub.run("ip", "link", "add", BRIDGE, "type", "bridge")
            self._address(self.hub, BRIDGE)
            for machine in self.machines:
                end = ["type", "veth", "peer", "name", "eth0", "netns", str(machine.pid)]
                self.hub.run("ip", "link", "add", machine.name, *end)
                self.hub.run("ip", "link", "set", machine.name, "master", BRIDGE, "up")
                self._address(machine, "eth0")
        except BaseException:
            self.end()
            raise

    @staticmethod
    def _address(machine: Machine, link: str) -> None:
        machine.run("ip", "address", "add", f"{machine.address}/24", "dev", link)
        machine.run("ip", "link", "set", link, "up")

    def cut(self, machine: Machine) -> None:
        """Nothing goes to it or comes from it."""
        self.hub.run("ip", "link", "set", machine.name, "down")

    def mend(self, machine: Machine) -> None:
        self.hub.run("ip", "link", "set", machine.name, "up")

    def end(self) -> None:
        for machine in self._all:
            machine.end()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


def impossible(directory: Path) -> str | None:
    """Why there can be no such machines here, if so. ``directory`` is for a trial."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    missing = [name for name in ("ip", "unshare", "nsenter", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"no {', '.join(missing)} here (on Debian: sudo apt-get install iproute2 util-linux)"
    try:
        with Network(1, directory / "trial"):
            return None
    except OSError as error:
        return f"network namespaces do not work here ({error})"
