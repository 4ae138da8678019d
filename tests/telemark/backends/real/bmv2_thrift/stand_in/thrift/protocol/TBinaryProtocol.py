class TBinaryProtocol:
    def __init__(self, trans):
        self.port = trans.port
