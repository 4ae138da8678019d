"""Python imports this when it starts: in a network on minip4, controllers find no Thrift of bmv2's.

`import p4utils.utils.sswitch_thrift_API` gets thrift_on_minip4.py in its place.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

REPLACED = "p4utils.utils.sswitch_thrift_API"
STAND_IN = Path(__file__).with_name("thrift_on_minip4.py")


class Finder:
    """Finds one module where others would not look (importlib.abc.MetaPathFinder)."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """The specification of that module, or None."""
        if name != REPLACED:
            return None
        return importlib.util.spec_from_file_location(name, STAND_IN)


sys.meta_path.insert(0, Finder)
