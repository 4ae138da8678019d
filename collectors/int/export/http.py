"""Where Prometheus scrapes a collector while it runs: http://ADDRESS:PORT/metrics."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from collectors.int.application import Findings
from collectors.int.export import prometheus
from telemark.errors import TestbedError

PATH = "/metrics"
PATIENCE_S = 5.0  # with a client that asks for nothing: there is one at a time


class Endpoint:
    """Answers with what `findings` returns at that time, which another thread calls."""

    def __init__(self, port: int, findings: Callable[[], Findings]) -> None:
        """Raises TestbedError where the port is taken."""

        class Handler(BaseHTTPRequestHandler):
            timeout = PATIENCE_S

            def do_GET(self) -> None:
                if self.path != PATH:
                    self.send_error(404, f"there is {PATH} alone")
                    return
                text = prometheus.text(findings()).encode()
                self.send_response(200)
                self.send_header("Content-Type", prometheus.CONTENT_TYPE)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_what: object) -> None:
                """Scrapes are no news."""

        try:
            self._server = HTTPServer(("", port), Handler)
        except OSError as error:
            raise TestbedError(f"TCP port {port} for Prometheus: {error.strerror}") from None
        Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """TCP; of 0 the kernel made one that is free."""
        return self._server.server_port

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
