"""Errors that users meet. Each says what failed, what was found and what to do."""


class ReshapeError(Exception):
    """Base of all errors that reshape raises on purpose.

    >>> try:
    ...     reshape.flow(orders, hosts=0)
    ... except reshape.ReshapeError as error:
    ...     print(error)
    hosts = 0 is not possible; it must be a whole number from 1 to 65,535
    """


class SettingError(ReshapeError):
    """A setting that does not exist or cannot have this value; says what can.

    >>> reshape.flow(orders, worker=3)
    Traceback (most recent call last):
    reshape.errors.SettingError: there is no option 'worker' (did you mean workers?); there are name, hosts, ...
    """


class FlowError(ReshapeError):
    """A flow that cannot be built as asked; says what to change.

    >>> reshape.flow(spark.readStream.format("rate").load())
    Traceback (most recent call last):
    reshape.errors.FlowError: flow: this DataFrame is a stream, which does not end; flows read DataFrames that do
    """


class JavaNotFound(ReshapeError):
    """No Java on this machine can run Spark.

    `rejected` says what was wrong at each place that was looked at; `wanted` is the oldest version that fits.

    >>> print(reshape.JavaNotFound(("JAVA_HOME is not set", "there is no java on PATH"), 17))
    Spark needs Java 17 or newer, and none was found: JAVA_HOME is not set; there is no java on PATH. Install one ...
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


class FlowFailed(ReshapeError):
    """A flow ended with an error; says where it began.

    >>> from pyspark.sql.functions import expr
    >>> reshape.start(by_shop.select(expr("sum(1 / (count - 100))"))).awaitTermination()
    Traceback (most recent call last):
    reshape.errors.FlowFailed: the flow failed in ...
    """

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(where, cause)
        self.where = where
        self.cause = cause

    def __str__(self) -> str:
        return f"the flow failed in {self.where}: {self.cause}"


class FlowCancelled(ReshapeError):
    """A flow was stopped on request.

    >>> query = reshape.start(by_shop, cost_s_per_row=60)
    >>> query.stop()
    >>> type(query.exception())
    <class 'reshape.errors.FlowCancelled'>
    """


class TooFewSlots(ReshapeError):
    """Hosts, and sources that Spark reads, cannot run at the same time.

    `reads` are the flows whose results the sources read, with the hosts of each, which run at the same time too.

    >>> reshape.flow(by_shop, hosts=500).toDF()
    Traceback (most recent call last):
    reshape.errors.TooFewSlots: the session has ... task slots; this flow needs 500 for its hosts and one more ...
    """

    def __init__(
        self, slots: int, hosts: int, sources: bool, advice: str, reads: tuple[tuple[str, int], ...] = ()
    ) -> None:
        super().__init__(slots, hosts, sources, advice, reads)
        self.slots = slots
        self.hosts = hosts
        self.sources = sources
        self.advice = advice
        self.reads = reads

    def __str__(self) -> str:
        read = "".join(f", {hosts} for those of {name}, whose result it reads" for name, hosts in self.reads)
        more = " and one more at least for its sources at the same time" if self.sources else ""
        return (
            f"the session has {self.slots} task slots; this flow needs {self.hosts} for its hosts{read}{more}. "
            f"{self.advice}"
        )


class UnsuitableSession(ReshapeError):
    """A setting of the session rules flows out.

    >>> reshape.local_session(spark_driver_memory="77m")
    Traceback (most recent call last):
    reshape.errors.UnsuitableSession: local_session: a Spark session runs already with other settings (...
    """
