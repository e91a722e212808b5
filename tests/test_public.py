"""What `import reshape` gives: names, quickly, and one base for every error."""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
import subprocess
import sys

import pytest

import reshape
from reshape.errors import ReshapeError

# Exceptions that never leave the package: they carry control, not a message for anybody.
CONTROL_FLOW = {
    # Takes an error of the user's own input out of the routing of its rows, to be raised again as it was.
    "reshape.sender.source.InputFailed",
    # Ends of connections, which listener and client turn into what they tell.
    "reshape.exchange.transport.handshake.Stranger",
    "reshape.exchange.transport.receiving._BrokenOff",
    # Ends a user's function that waits for rows in a thread of its own, and that thread.
    "reshape.host.one_call._Closed",
}


def modules() -> list[str]:
    listed = [module.name for module in pkgutil.walk_packages(reshape.__path__, "reshape.")]
    return [name for name in listed if not name.endswith("__main__")]


def test_every_error_of_the_package_is_a_reshape_error() -> None:
    defined = {
        f"{name}.{thing.__qualname__}": thing
        for name in modules()
        for thing in vars(importlib.import_module(name)).values()
        if inspect.isclass(thing) and issubclass(thing, BaseException) and thing.__module__ == name
    }
    strangers = {name for name, error in defined.items() if not issubclass(error, ReshapeError)}
    assert strangers == CONTROL_FLOW


def test_everything_public_is_there() -> None:
    assert sorted(reshape.__all__) == reshape.__all__
    for name in reshape.__all__:
        assert getattr(reshape, name) is not None
        assert name in dir(reshape)
    assert set(reshape._MODULES) <= set(reshape.__all__)
    with pytest.raises(AttributeError, match="module 'reshape' has no attribute 'floes'"):
        reshape.floes  # noqa: B018


def test_errors_that_users_meet_are_public() -> None:
    from reshape import errors

    named = {name for name, thing in vars(errors).items() if inspect.isclass(thing)}
    assert named <= set(reshape.__all__)


@pytest.mark.parametrize("statement", ["import reshape", "from reshape import ReshapeError, FlowFailed, SettingError"])
def test_importing_the_package_imports_neither_spark_nor_arrow(statement: str) -> None:
    heavy = "{'pyspark', 'pyarrow', 'numpy', 'pandas'}"
    code = f"{statement}; import sys; sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_package_is_silent_until_logging_is_configured() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("reshape").handlers)
