"""Options of switches in virtual time: a subset of the options of `minip4 switch`."""

import argparse
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

from minip4.runtime.switch import cli
from minip4.runtime.switch.options import SwitchOptions
from telemark.errors import TestbedError

# Names of the fields of SwitchOptions that have an effect in virtual time.
VIRTUAL_OPTIONS = {"device_id", "cpu_port", "links", "queues", "priority_queues", "deflect_on_drop",
                   "seed", "clock_offset_us", "clock_drift_ppb", "trace"}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise TestbedError(f"switch {self.prog}: {message}")


@cache
def _parser() -> tuple[_Parser, dict[str, Any]]:
    """Return the parser of the options of `minip4 switch`, and the defaults of these options."""
    parser = _Parser(add_help=False)
    cli.add_arguments(parser)
    return parser, vars(parser.parse_args(["program.json"]))


def parse(name: str, options: Sequence[str]) -> SwitchOptions:
    """Parse options of `minip4 switch`.

    Raises TestbedError if one has no effect in virtual time.
    """
    parser, default = _parser()
    parser.prog = name
    given = parser.parse_args(["program.json", *options])
    for key, value in vars(given).items():
        if key not in VIRTUAL_OPTIONS and value != default[key]:
            option = key.replace("_", "-")
            raise TestbedError(f"switch {name}: option --{option} is not available in virtual time")
    fields = SwitchOptions.__dataclass_fields__
    return SwitchOptions(**{key: value for key, value in vars(given).items() if key in fields})
