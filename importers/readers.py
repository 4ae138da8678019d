"""Which reader reads a description: that of whoever wrote it."""

from pathlib import Path

from importers import p4app, tutorials
from importers.network import DescribedNetwork
from telemark.errors import TestbedError
from telemark.json_input import Document


def read(path: Path, program: Path | None) -> DescribedNetwork:
    """The network that a file describes, with another P4 program where one is given.

    Raises TestbedError, in one line.
    """
    if path.is_dir():
        raise TestbedError(
            f"{path} is a folder: expected a description in it, as topology.json or p4app.json"
        )
    document = Document.load(path)
    if document.get("topology") is not None:
        return p4app.read(document, program)
    return tutorials.read(document, program)
