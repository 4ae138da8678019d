"""Runs p4-learning's examples and solved exercises (p4app.json): does what their text says happen?

    sudo python benchmarks/p4_learning.py CLONE [--target bmv2] [--time virtual]

CLONE is one of theirs. Each is one run of `telemark run`, with a script of the commands that its
README has people type; in virtual time these are pings alone. On bmv2, simple_switch_CLI reads
registers. Exit status 1 where one does not do what its text says.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import re
import sys
from pathlib import Path

import _described
from _p4_learning import NETWORKS, Network

FRAMES = f"python3 {Path(__file__).with_name('_frames.py')}"
REGISTER_READ = {  # of switch s1
    "minip4": r"sh minip4 tables \1",
    "bmv2": r"sh echo register_read \1 | simple_switch_CLI --thrift-port 9091",
}


def main() -> int:
    options = _described.parser(__doc__, "p4-learning").parse_args()
    chosen = [
        network for network in NETWORKS
        if options.only in (None, network.file) and (network.is_virtual or options.time == "real")
    ]  # fmt: skip
    missing = [network.file for network in chosen if not (options.clone / network.file).is_file()]
    if missing or not chosen:
        _described.parser(__doc__, "").error(
            f"{options.clone}: expected a clone, with {', '.join(missing[:1]) or 'such a network'}"
        )
    verdicts = []
    for network in chosen:
        verdicts.append(_verdict(network, options))
        print(f"{network.file:64} {verdicts[-1]}", flush=True)
    return _described.summed_up(verdicts, options)


def _verdict(network: Network, options: argparse.Namespace) -> str:
    file = options.clone / network.file
    if options.time == "virtual":
        return _described.verdict(file, _described.PINGALL, [_described.ALL_ANSWERED], options)
    commands = _commands(network.commands, options.target)
    return _described.verdict(file, commands, network.expected, options)


def _commands(commands: str, target: str) -> str:
    """With what stands for our own words."""
    read = re.sub(r"^register_read (\S+)$", REGISTER_READ[target], commands, flags=re.MULTILINE)
    return read.replace("{frames}", FRAMES)


if __name__ == "__main__":
    sys.exit(main())
