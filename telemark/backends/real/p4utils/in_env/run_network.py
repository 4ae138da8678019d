"""Run a script of p4-utils' NetworkAPI: run_network.py minip4|bmv2 COMMANDS SCRIPT

COMMANDS is a file of commands for Mininet's CLI, if the script starts the CLI; `-` means
interactive. This program must run in p4-utils' environment, inside the namespaces of a run.
"""

import contextlib
import functools
import runpy
import sys
from pathlib import Path

import mininet.net
import psutil
import telemark_p4utils
from p4utils.mininetlib import network_API
from p4utils.utils.compiler import CompilationError

NETWORKS = {
    "minip4": telemark_p4utils.NetworkAPI,
    "bmv2": telemark_p4utils.CompiledNetworkAPI,
}
NOT_COMPILED = "its P4 program cannot be compiled (see above)"
UNUSABLE, INTERNAL_ERROR = (
    2,
    3,
)  # the same exit statuses as in telemark/session/cli.py


def main() -> None:
    """Run the script with the target's NetworkAPI."""
    target, commands, script = sys.argv[1:]
    network_API.NetworkAPI = NETWORKS[target]
    # New namespaces need no cleanup. Mininet's cleanup selects processes and files by name, so it
    # would also kill processes and remove files of other runs.
    network_API.NetworkAPI.cleanup = lambda _network: None
    network_API.NetworkAPI.stop_exec_scripts = _stop_scripts
    # Mininet's function would change settings that affect the whole machine
    mininet.net.fixLimits = lambda: None
    if commands != "-":
        network_API.P4CLI = functools.partial(network_API.P4CLI, script=commands)
    sys.argv = [script]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except (telemark_p4utils.Minip4Error, CompilationError) as error:
        print(f"{script}: error: {str(error) or NOT_COMPILED}", file=sys.stderr)
        sys.exit(UNUSABLE)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(INTERNAL_ERROR)


def _stop_scripts(network: network_API.NetworkAPI) -> None:
    """Stop scripts. p4-utils' own method fails for a script that has already exited."""
    for pid in network.scripts_pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            network_API.kill_proc_tree(pid)
    network.scripts_pids = []


if __name__ == "__main__":
    main()
