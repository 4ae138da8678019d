class TSocket:
    def __init__(self, host="localhost", port=9090):
        self.host, self.port = host, port
