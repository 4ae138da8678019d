"""Run of an imported network: starts it, fills its switches, and runs the user's commands."""

import argparse
import dataclasses
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from functools import partial

from controllers.connection import connection
from importers.network import DescribedNetwork, DescribedTopo, Host, Switch
from importers.scripts import Scripts
from telemark.backends.real.mininet_cli import script_lines
from telemark.network import Network
from telemark.results.files import make_folder, replace
from telemark.session import cli
from telemark.session.run import Run


def run_network(described: DescribedNetwork, options: argparse.Namespace, run: Run) -> int:
    """Run an imported network. Return the exit status. Raises TestbedError."""
    if options.commands is not None:
        script_lines(options.commands)  # report errors in the script before the network starts
    for line in described.messages:
        run.progress.say(line)
    if options.time == "real":
        os.chdir(described.folder)  # the shells of hosts start in this directory
    with cli.aftermath(run, options), run.progress:
        run.clock.run(_run(described, options, run))
    return cli.PASSED


async def _run(described: DescribedNetwork, options: argparse.Namespace, run: Run) -> None:
    is_real = options.time == "real"
    topo = DescribedTopo(described)
    programs = {switch.name: switch.program for switch in described.switches}
    switch_options = {switch.name: switch.options for switch in described.switches}
    with (
        # The user's commands run inside this block. The block ends before the network stops, and
        # then reports scripts that failed. A later report would be wrong, because scripts fail
        # when the network stops.
        Network(
            topo, dataclasses.replace(run, interactive=False), program=programs,
            switch_options=switch_options, capture=run.keeps,
        ) as net,
        Scripts(described.scripts, described.folder, run) as scripts,
    ):  # fmt: skip
        for switch in described.switches:
            await fill(net, switch, run)
        for host in described.hosts:
            _set_up(net, host, run, scripts, is_real=is_real)
        if is_real:
            run.progress.say(_p4runtime_addresses(described.switches))
            _write_compiled(net, described)
            scripts.start()
        else:
            for command in described.scripts:
                run.progress.say(f"not in virtual time: {command}")
        if options.commands is not None:
            await net.run_script(options.commands)
        else:
            net.command_line()


async def fill(net: Network, switch: Switch, run: Run) -> None:
    """Write the initial content of a switch, and print messages to the user.

    Raises TestbedError.
    """
    if not switch.populations:
        run.progress.say(f"{switch.name}: no table entries; waiting for a controller")
        return
    async with connection(net, switch.name) as client:
        for population in switch.populations:
            for line in await population.write(client, net):
                run.progress.say(f"{switch.name}: {line}")


def _set_up(net: Network, host: Host, run: Run, scripts: Scripts, *, is_real: bool) -> None:
    """Run the commands of a host, and start its tasks."""
    if not is_real:
        for command in [*host.commands, *(task.command for task in host.tasks)]:
            run.progress.say(f"{host.name}: not in virtual time: {command}")
        return
    node = net.host(host.name)
    for command in host.commands:
        # With eval, an unbalanced quote affects only its own command, and not the text that
        # follows.
        output = node.cmd(f"eval {shlex.quote(command)}").strip()
        # The output may also contain output of background jobs, which earlier commands started.
        status = re.search(r"status=(\d+)", node.cmd('echo "status=$?"'))
        if status is None or status[1] != "0":
            ended = "" if status is None else f" ended with status {status[1]}"
            run.progress.say(f"{host.name}: `{command}`{ended}: {output}")
    for task in host.tasks:
        name = f"{host.name}: `{task.command}`"
        scripts.begin(name, f"sleep {task.at_s:g}; {task.command}", node.popen)


def _write_compiled(net: Network, described: DescribedNetwork) -> None:
    """Write the programs of switches without table entries.

    Controllers read these programs in the folder `compiled`.
    """
    waiting = [switch for switch in described.switches if not switch.populations]
    if not waiting or described.compiled is None:
        return
    for folder in (described.compiled, *described.folders):
        make_folder(folder)
    for switch in waiting:
        node, name = net.switch(switch.name), switch.program.stem
        for source, target in ((node.blob_path, f"{name}.json"),
                               (node.p4info_path, f"{name}.p4.p4info.txtpb")):  # fmt: skip
            replace(described.compiled / target, partial(shutil.copyfile, source))


def _p4runtime_addresses(switches: Sequence[Switch]) -> str:
    """Return a message for the user's controllers: the P4Runtime addresses of switches."""
    places = ", ".join(f"{each.name} 127.0.0.1:{each.grpc_port} (device {each.device_id})"
                       for each in switches)  # fmt: skip
    return f"P4Runtime, in the namespaces of this run: {places}"
