"""Replace p4-utils' Thrift API in networks on minip4. Python imports this file at startup.

`import p4utils.utils.sswitch_thrift_API` then imports thrift_on_minip4.py.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

REPLACED = "p4utils.utils.sswitch_thrift_API"
STAND_IN = Path(__file__).with_name("thrift_on_minip4.py")


class Finder:
    """Finder (importlib.abc.MetaPathFinder) for the replaced module."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return the specification of the replacement; None for other modules."""
        if name != REPLACED:
            return None
        return importlib.util.spec_from_file_location(name, STAND_IN)


sys.meta_path.insert(0, Finder)
