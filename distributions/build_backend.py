"""Build backend of both distributions: setuptools with three changes.

- An editable install of Telemark contains minip4, because in a checkout, both are in one folder. A
  wheel of Telemark requires the distribution minip4 instead. setup.py reads `is_editable`.
- A wheel contains no files of earlier builds.
- The build works in a checkout that belongs to another user.
"""

import os
import shutil
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  hooks that are the same in both cases
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

# With another owner of the checkout, git refuses to work, and setuptools-scm would stop.
os.environ.setdefault("SETUPTOOLS_SCM_IGNORE_DUBIOUS_OWNER", "1")
is_editable = False


def build_wheel(*arguments: Any) -> str:
    """Build a wheel."""
    # setuptools would add files that have been deleted since an earlier build
    shutil.rmtree("build/lib", ignore_errors=True)
    return build_meta.build_wheel(*arguments)


def prepare_metadata_for_build_editable(*arguments: Any) -> str:
    """Write the metadata of an editable install."""
    _set_editable()
    return build_meta.prepare_metadata_for_build_editable(*arguments)


def build_editable(*arguments: Any) -> str:
    """Build the wheel of an editable install."""
    _set_editable()
    return build_meta.build_editable(*arguments)


def _set_editable() -> None:
    global is_editable  # noqa: PLW0603  the backend's interface has no argument for it
    is_editable = True
