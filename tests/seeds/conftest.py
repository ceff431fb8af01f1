"""What the examples of the documents reach for: a web page, nearby."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PAGE = "<!doctype html><html><head><title>Example Domain</title></head><body>" + "text " * 50


class Site:
    """A local web site that counts how often it was asked."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self.asked: list[str] = []


@pytest.fixture
def site() -> Iterator[Site]:
    """A web site on this machine, in the place of www.example.com."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            body = PAGE.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site = Site(server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield site
        server.shutdown()
        thread.join()
