"""Queues of a switch. It records each call in the file whose path is in TOLD."""

import json
import os


class Client:
    def __init__(self, iprot, oprot=None):
        assert iprot.service == "simple_switch"
        self.port = iprot.port

    def set_all_egress_queue_depths(self, depth_pkts):
        self._tell("all depths", depth_pkts)

    def set_egress_queue_depth(self, port_num, depth_pkts):
        self._tell("depth", port_num, depth_pkts)

    def set_egress_queue_rate(self, port_num, rate_pps):
        self._tell("rate", port_num, rate_pps)

    def _tell(self, *what):
        with open(os.environ["TOLD"], "a") as told:
            told.write(json.dumps([self.port, *what]) + "\n")
