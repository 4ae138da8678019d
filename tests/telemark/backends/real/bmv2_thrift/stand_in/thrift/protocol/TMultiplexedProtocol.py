class TMultiplexedProtocol:
    def __init__(self, protocol, serviceName):
        self.port, self.service = protocol.port, serviceName
