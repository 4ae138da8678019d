"""A switch that stores its parameters."""

KNOWN = {"sw_bin": "simple_switch_grpc", "json_path": None, "grpc_port": None, "pcap_dump": False,
         "pcap_dir": None, "log_enabled": False, "log_dir": "/tmp", "enable_debugger": False,
         "priority_queues_num": 1}  # fmt: skip


class P4RuntimeSwitch:
    """Stand-in for p4-utils' class. `params` has the parameters that the class does not know."""

    def __init__(self, name, device_id, **options):
        self.name = name
        self.device_id = device_id
        self.__dict__.update(KNOWN)
        self.__dict__.update({word: options[word] for word in KNOWN.keys() & options.keys()})
        self.params = {word: options[word] for word in options.keys() - KNOWN.keys()}
        self.intfs = {}

    def stop(self, deleteIntfs=True):
        self.intfs = {}
