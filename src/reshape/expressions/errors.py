"""What the room of expressions says when it cannot go on. All are picklable: they travel from a task to the driver."""

from __future__ import annotations

from reshape.errors import ReshapeError


class NotExact(ReshapeError):
    """An expression that Arrow would not compute exactly as Spark does, or that has no counterpart here."""

    def __init__(self, expression_sql: str, reason: str) -> None:
        super().__init__(expression_sql, reason)
        self.expression_sql = expression_sql
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.expression_sql} cannot be computed outside of Spark: {self.reason}"


class EvaluationFailed(ReshapeError):
    """A row for which Spark would raise too; `condition` is the name that Spark gives to the error."""

    def __init__(self, condition: str, function: str, detail: str) -> None:
        super().__init__(condition, function, detail)
        self.condition = condition
        self.function = function
        self.detail = detail

    def __str__(self) -> str:
        return f"[{self.condition}] {self.function}: {self.detail}"


class BatchMismatch(ReshapeError):
    """A batch is not of the types that an expression was made for, or holds text that is no UTF-8."""

    def __init__(self, what: str, got: str, wanted: str) -> None:
        super().__init__(what, got, wanted)
        self.what = what
        self.got = got
        self.wanted = wanted

    def __str__(self) -> str:
        return f"{self.what}: got {self.got}, wanted {self.wanted}"
