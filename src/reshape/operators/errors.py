"""What operators say when they cannot go on. All are picklable: they travel from a task to the driver."""

from __future__ import annotations

from reshape.errors import ReshapeError
from reshape.kernels.hashing import UnsupportedKeyType

__all__ = [
    "GroupFunctionFailed",
    "KeyTypesDiffer",
    "NegativeFrequency",
    "OperatorError",
    "OutOfRange",
    "PortError",
    "StateMismatch",
    "UnsupportedAggregate",
    "UnsupportedKeyType",
    "UserAggregateFailed",
]


class OperatorError(ReshapeError):
    """Base of the errors of operators; all name the operator.

    >>> reshape.OutOfRange("group-by", "sum", "price", "bigint").operator
    'group-by'
    """

    def __init__(self, operator: str, *details: object) -> None:
        super().__init__(operator, *details)
        self.operator = operator


class PortError(OperatorError):
    """A port was used that the operator does not have, or at a time when it is not open."""

    def __init__(self, operator: str, port: int, reason: str) -> None:
        super().__init__(operator, port, reason)
        self.port = port
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.operator}: port {self.port} {self.reason}"


class KeyTypesDiffer(OperatorError):
    """Two key columns that are compared have different types; the planner should have cast them.

    >>> print(reshape.KeyTypesDiffer("hash join", "id", "int64", "number", "string"))
    hash join: key 'id' is int64 but 'number' is string; cast one of them
    """

    def __init__(self, operator: str, left: str, left_type: str, right: str, right_type: str) -> None:
        super().__init__(operator, left, left_type, right, right_type)
        self.left, self.left_type = left, left_type
        self.right, self.right_type = right, right_type

    def __str__(self) -> str:
        return (
            f"{self.operator}: key {self.left!r} is {self.left_type} but {self.right!r} is {self.right_type}; "
            "cast one of them"
        )


class UnsupportedAggregate(OperatorError):
    """An aggregate has no meaning for a column of this type, or none that is built.

    >>> print(reshape.UnsupportedAggregate("group-by", "sum", "tags", "list<item: string>"))
    group-by: sum of column 'tags' of type list<item: string> is not supported
    """

    def __init__(self, operator: str, aggregate: str, column: str, type_name: str) -> None:
        super().__init__(operator, aggregate, column, type_name)
        self.aggregate = aggregate
        self.column = column
        self.type_name = type_name

    def __str__(self) -> str:
        return f"{self.operator}: {self.aggregate} of column {self.column!r} of type {self.type_name} is not supported"


class OutOfRange(OperatorError):
    """A sum or mean does not fit its type. Spark raises too unless spark.sql.ansi.enabled is false.

    >>> print(reshape.OutOfRange("group-by", "sum", "price", "bigint"))
    group-by: sum of column 'price' does not fit bigint; cast the column to a wider decimal or to double
    """

    def __init__(self, operator: str, aggregate: str, column: str, type_name: str) -> None:
        super().__init__(operator, aggregate, column, type_name)
        self.aggregate = aggregate
        self.column = column
        self.type_name = type_name

    def __str__(self) -> str:
        return (
            f"{self.operator}: {self.aggregate} of column {self.column!r} does not fit {self.type_name}; "
            "cast the column to a wider decimal or to double"
        )


class NegativeFrequency(OperatorError):
    """A value is to count less than no time."""

    def __init__(self, operator: str, column: str, value: int) -> None:
        super().__init__(operator, column, value)
        self.column = column
        self.value = value

    def __str__(self) -> str:
        return (
            f"{self.operator}: percentile got a frequency of {self.value} in column {self.column!r}; "
            "leave out rows whose frequency is below zero"
        )


class StateMismatch(OperatorError):
    """State came that does not fit: of another operator, another schema, or naming rows that never came."""

    def __init__(self, operator: str, got: str, wanted: str) -> None:
        super().__init__(operator, got, wanted)
        self.got = got
        self.wanted = wanted

    def __str__(self) -> str:
        return f"{self.operator}: cannot merge state, got {self.got}, wanted {self.wanted}"


class UserAggregateFailed(OperatorError):
    """A method of a user-defined aggregate raised; the cause says what.

    >>> print(reshape.UserAggregateFailed("group-by", "Longest", "merge", "TypeError: no number"))
    group-by: merge() of user-defined aggregate 'Longest' failed: TypeError: no number
    """

    def __init__(self, operator: str, aggregate: str, method: str, cause: str) -> None:
        super().__init__(operator, aggregate, method, cause)
        self.aggregate = aggregate
        self.method = method
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.operator}: {self.method}() of user-defined aggregate {self.aggregate!r} failed: {self.cause}"


class GroupFunctionFailed(OperatorError):
    """A user's function of a group raised, or gave what it had not promised; the cause says what."""

    def __init__(self, operator: str, function: str, cause: str) -> None:
        super().__init__(operator, function, cause)
        self.function = function
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.operator}: {self.function} failed for a group: {self.cause}"
