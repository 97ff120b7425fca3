"""A folder for what is made of files and texts that people hand in; it goes when the program ends."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def scratch() -> Path:
    """One a process, readable by its user alone."""
    folder = Path(tempfile.mkdtemp(prefix="specviz-brought-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
