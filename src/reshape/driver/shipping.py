"""The package travels to the executors with the job: nothing has to be installed there."""

from __future__ import annotations

import weakref
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from reshape._version import VERSION

if TYPE_CHECKING:
    from pyspark import SparkContext

# Files of the live page are for a browser at the driver.
_NOT_NEEDED = {"__pycache__", "static"}
_SHIPPED: weakref.WeakSet[SparkContext] = weakref.WeakSet()


def ship(context: SparkContext) -> None:
    """Add the package to the files of this application, once."""
    master = context.master or ""
    if context in _SHIPPED or master == "local" or master.startswith("local["):
        return
    root = Path(__file__).parents[1]
    # Executors fetch the file from where it lies, whenever they start; this folder goes when the application ends.
    archive = Path(str(context._temp_dir)) / f"reshape-{VERSION}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for file in sorted(root.rglob("*")):
            if file.is_file() and not _NOT_NEEDED & set(file.parts):
                package.write(file, Path("reshape") / file.relative_to(root))
    context.addPyFile(str(archive))
    _SHIPPED.add(context)
