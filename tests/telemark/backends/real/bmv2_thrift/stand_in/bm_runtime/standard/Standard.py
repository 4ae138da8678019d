"""A switch with two registers. It records each write in the file whose path is in TOLD."""

import json
import os

from bm_runtime.standard.ttypes import InvalidRegisterOperation, RegisterOperationErrorCode

CELLS = {"I.narrow": [0, 1, 2, 3], "I.wide": [5, 2**63 - 1]}


class Client:
    def __init__(self, iprot, oprot=None):
        assert iprot.service == "standard"
        self.port = iprot.port

    def bm_register_read_all(self, cxt_id, register_array_name):
        assert cxt_id == 0
        if register_array_name == "I.broken":
            os._exit(3)
        if register_array_name not in CELLS:
            raise InvalidRegisterOperation(RegisterOperationErrorCode.INVALID_REGISTER_NAME)
        return CELLS[register_array_name]

    def bm_register_read(self, cxt_id, register_array_name, idx):
        return self.bm_register_read_all(cxt_id, register_array_name)[idx]

    def bm_register_write_range(self, cxt_id, register_array_name, start_index, end_index, value):
        assert cxt_id == 0
        cells = ["cells", register_array_name, start_index, end_index, value]
        with open(os.environ["TOLD"], "a") as told:
            told.write(json.dumps([self.port, *cells]) + "\n")
