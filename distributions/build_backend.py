"""Build backend of Telemark: setuptools, with minip4 included in an editable install.

The wheel of Telemark depends on the distribution minip4. In a checkout, both are in one folder, and
`pip install -e .` installs both. setup.py reads `is_editable`.
"""

import os
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  hooks that are the same in both cases
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

# With another owner of the checkout, git refuses to work, and setuptools-scm would stop.
os.environ.setdefault("SETUPTOOLS_SCM_IGNORE_DUBIOUS_OWNER", "1")
is_editable = False


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
