"""A client that stores its parameters."""


class ThriftClient:
    """Stand-in for p4-utils' class."""

    def __init__(self, thrift_port, sw_name, cli_input=None, **options):
        self.sw_name = sw_name
        self.cli_input = cli_input
