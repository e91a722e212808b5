"""A stand-in Java home whose `bin/java` drops one flag and then becomes the real program."""

import hashlib
import os
import shlex
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SCRIPT = """\
#!/bin/sh
# The Java runtime behind this lacks a module that Spark asks for, and would not start over it.
for argument do
    shift
    [ "$argument" = {dropped_flag} ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""

# Starting a small JVM takes 0.1 s; the rest is room for a busy machine.
TRIAL_SECONDS = 20.0


def write_wrapper_home(real_home: Path, version: str, *, dropped_flag: str) -> Path:
    """Makes the stand-in in a private directory, or finds it there, and returns it as a JAVA_HOME.

    Any number of processes may do this at once: each writes a file of its own and moves it into place.
    Raises `OSError` when no directory can hold it.
    """
    program = real_home / "bin" / "java"
    script = SCRIPT.format(dropped_flag=shlex.quote(dropped_flag), program=shlex.quote(str(program)))
    # Two environments may hold the same version at different places, and one may be deleted.
    name = f"java-{version}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    refused: list[str] = []
    for parent in cache_directories():
        home = parent / name
        try:
            write_script(home / "bin" / "java", script)
        except OSError as error:
            refused.append(f"{home}: {error.strerror or error}")
        else:
            return home
    raise OSError(f"no directory for the Java wrapper: {'; '.join(refused)}. Set XDG_CACHE_HOME to a writable one.")


def cache_directories() -> Iterator[Path]:
    """Per-user directories to try, the lasting one first."""
    for cache in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        # A relative XDG_CACHE_HOME is to be ignored, says its specification; "~" stays if there is no home.
        if os.path.isabs(cache):
            yield Path(cache) / "reshape"
    yield Path(tempfile.gettempdir()) / f"reshape-{os.getuid()}"


def write_script(path: Path, text: str) -> None:
    for directory in (path.parents[2], path.parents[1], path.parent):
        make_private_directory(directory)
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, stat.S_IRWXU)
        check_runs(temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def make_private_directory(path: Path) -> None:
    """Refuses a directory that another user made: whoever owns it decides which program we start."""
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} is not a directory of this user")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        path.chmod(stat.S_IRWXU)


def check_runs(program: str) -> None:
    """Some machines mount home or temporary directories without the right to start programs there."""
    try:
        subprocess.run([program, "-version"], capture_output=True, timeout=TRIAL_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        raise OSError(f"the wrapper does not start: {error}") from error
