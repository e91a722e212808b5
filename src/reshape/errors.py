"""Errors that users meet. Each says what failed, what was found and what to do."""


class ReshapeError(Exception):
    """Base of all errors that reshape raises on purpose."""


class FlowError(ReshapeError):
    """A flow that cannot be built as asked; says what to change."""


class JavaNotFound(ReshapeError):
    """No Java on this machine can run Spark.

    `rejected` says what was wrong at each place that was looked at; `wanted` is the oldest version that fits.
    """

    def __init__(self, rejected: tuple[str, ...], wanted: int) -> None:
        super().__init__(rejected, wanted)
        self.rejected = rejected
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"Spark needs Java {self.wanted} or newer, and none was found: {'; '.join(self.rejected)}. "
            "Install one as a Python package (pip install 'reshape[java]'), "
            f"or set JAVA_HOME to a Java {self.wanted} or newer."
        )
