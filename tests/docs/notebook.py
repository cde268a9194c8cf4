"""A notebook executed from top to bottom in a folder of its own.

`python -m tests.docs.notebook examples/notebook/hospitals.ipynb` writes its outputs anew.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.docs.pages import PROJECT

SECONDS_PER_CELL = 300


def executed(notebook: Path, folder: Path) -> NotebookNode:
    """Its cells with fresh outputs; an error in a cell is raised. Times are not recorded."""
    examples = folder / "examples"
    shutil.copytree(PROJECT / "examples", examples)
    place = examples / notebook.parent.relative_to(PROJECT / "examples")
    document = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        document,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(place)}},
    )
    settings = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    with mock.patch.dict(os.environ, settings):
        client.execute()
    document.metadata.language_info = {"name": "python"}
    return document


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as made:
            nbformat.write(executed(Path(name).resolve(), Path(made)), name)
