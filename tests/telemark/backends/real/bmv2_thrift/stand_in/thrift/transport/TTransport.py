class TTransportException(Exception):
    pass


class TBufferedTransport:
    def __init__(self, trans, rbuf_size=4096):
        self.port = trans.port

    def open(self):
        if self.port == 1:
            raise TTransportException("Could not connect to any of [('127.0.0.1', 1)]")

    def close(self):
        pass
