"""A client that keeps what it is given."""


class ThriftClient:
    """As p4-utils' class."""

    def __init__(self, thrift_port, sw_name, cli_input=None, **options):
        self.sw_name = sw_name
        self.cli_input = cli_input
