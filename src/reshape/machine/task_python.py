"""The Python that runs Spark's tasks on this machine: Spark takes `python3` of PATH unless it is told another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

from reshape.errors import UnsuitableSession

# What a task of a flow imports first.
_IMPORT = "import reshape.host.host"
_LONGEST_S = 60.0


@cache
def check_python(executable: str) -> None:
    """Raise UnsuitableSession unless tasks that this starts can import the package. One of another environment is
    asked, which takes about a second."""
    found = shutil.which(executable)
    if found is not None and _folder(found) == _folder(sys.executable):
        return
    if found is None:
        cause = "is not there"
    else:
        try:
            asked = subprocess.run(
                [found, "-c", _IMPORT], check=False, capture_output=True, text=True, timeout=_LONGEST_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            cause = f"cannot be asked ({error})"
        else:
            if asked.returncode == 0:
                return
            cause = f"cannot import reshape ({(asked.stderr.strip().splitlines() or ['no output'])[-1]})"
    raise UnsuitableSession(
        f"Spark's tasks run {found or executable}, which {cause}: set the environment variable PYSPARK_PYTHON to "
        f"{sys.executable} before the session is made, as reshape.local_session() does"
    )


def _folder(executable: str) -> str:
    """What tells environments apart: the files in them may be links to one Python."""
    return os.path.dirname(os.path.abspath(executable))
