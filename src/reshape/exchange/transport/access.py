"""What it takes to talk to the tasks of a run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM texts. All listeners of a run share one certificate, whose name the clients expect. ``mutual``: clients show
    it as well."""

    certificate: str
    key: str = field(repr=False)
    authority: str
    name: str
    mutual: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """The secret of a run, which never travels over a connection of ours, and its certificate."""

    secret: str
    tls: Tls | None = None

    def __repr__(self) -> str:
        return f"Access(secret=..., tls={'on' if self.tls else 'off'})"
