"""Errors and warnings in SARIF 2.1.0, a JSON format that editors and GitHub display."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from minip4.compiler.errors import P4Error
from minip4.compiler.warnings import P4Warning
from minip4.errors import Minip4Error

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write_sarif(path: Path, found: Iterable[P4Error | P4Warning]) -> None:
    """Write the errors and warnings of a program. Raises Minip4Error if that fails."""
    results = [_result(each) for each in found]
    rules = [{"id": rule} for rule in sorted({result["ruleId"] for result in results})]
    driver = {"name": "minip4", "rules": rules}
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    try:
        path.write_text(json.dumps(log, indent=2) + "\n")
    except OSError as error:
        raise Minip4Error(f"{path}: cannot write: {error.strerror}") from error


def _result(found: P4Error | P4Warning) -> dict[str, Any]:
    source = found.source
    region = {
        "startLine": source.line,
        "startColumn": source.column,
        "endLine": source.end_line,
        "endColumn": source.end_column,
    }
    text = f"{found.message}; expected: {found.expected}" if found.expected else found.message
    place = {"artifactLocation": {"uri": quote(os.fsencode(source.file.path))}, "region": region}
    return {
        "ruleId": "error" if isinstance(found, P4Error) else found.kind,
        "level": "error" if isinstance(found, P4Error) else "warning",
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
    }
