"""A network that stores its parameters. It prints the calls of a script to stdout."""

from p4utils.mininetlib.node import P4RuntimeSwitch


class NetworkAPI:
    """Stand-in for p4-utils' class.

    startNetwork() calls cleanup() first, and then opens the command line.
    """

    def __init__(self):
        self.given = {}
        self.modules = {}
        self.scripts_pids = []

    def setCompiler(self, kind, **options):
        self.modules["compiler"] = kind

    def setSwitchClient(self, kind, **options):
        self.modules["client"] = kind

    def addP4Switch(self, name, **opts):
        opts.setdefault("cls", object)
        self.given[name] = opts

    def addP4RuntimeSwitch(self, name, **opts):
        opts.setdefault("cls", P4RuntimeSwitch)
        self.addP4Switch(name, **opts | {"isP4RuntimeSwitch": True})

    def addLink(self, node1, node2, **opts):
        self.given[node1, node2] = opts
        return 0

    def cleanup(self):
        print("cleaned up")

    def startNetwork(self):
        self.cleanup()
        print("started with", self.modules["compiler"].__name__)
        P4CLI(self)
        self.stop_exec_scripts()

    def stop_exec_scripts(self):
        raise AssertionError("a script that has ended")


class P4CLI:
    """Stand-in for p4-utils' class: executes a script or typed commands."""

    def __init__(self, network, script=None):
        print("obeys", script)


def kill_proc_tree(pid):
    print("killed", pid)
