"""What the brain says about parameters that make no sense."""

from __future__ import annotations

from reshape.errors import ReshapeError


class ParameterError(ReshapeError, ValueError):
    """A parameter has a value that cannot be used.

    The message names the parameter, what it got and what it accepts; the same facts are fields for programs.

    >>> print(reshape.ParameterError("low, high", (3, 1), "0 <= low <= high"))
    low, high = (3, 1): 0 <= low <= high
    """

    def __init__(self, parameter: str, got: object, wanted: str) -> None:
        super().__init__(f"{parameter} = {got!r}: {wanted}")
        self.parameter = parameter
        self.got = got
        self.wanted = wanted

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str]]:
        return type(self), (self.parameter, self.got, self.wanted)


class StrategyRefused(ParameterError):
    """The strategy cannot be used for this kind of operator, whatever its parameters are.

    >>> reshape.flow(orders.orderBy("price"), strategy="pkg").toDF()
    Traceback (most recent call last):
    reshape.control.errors.StrategyRefused: strategy = 'pkg': ...
    """


def require(condition: bool, parameter: str, got: object, wanted: str) -> None:
    """Raise :class:`ParameterError` unless the condition holds."""
    if not condition:
        raise ParameterError(parameter, got, wanted)
