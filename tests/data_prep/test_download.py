"""Downloads, from a server of our own."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from download import download

from fairseq_normalign.errors import InputError

CONTENT = bytes(range(256)) * 20


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT; honours ranges and may cut the answer short."""

    ranges = True
    cut = None

    def do_GET(self):
        wanted = self.headers.get("Range") if self.ranges else None
        start = int(wanted[len("bytes=") : -1]) if wanted else 0
        self.server.starts.append(start)
        if wanted and start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.starts = []
    server.url = f"http://127.0.0.1:{server.server_port}/file"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_download_once(server, tmp_path):
    path = tmp_path / "file"
    assert download(server.url, path) == path
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.starts == [0]
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("ranges", "start"), [(True, 100), (False, 0)])
def test_resume(server, tmp_path, monkeypatch, ranges, start):
    monkeypatch.setattr(Handler, "ranges", ranges)
    (tmp_path / "file.part").write_bytes(CONTENT[:100])
    assert download(server.url, tmp_path / "file").read_bytes() == CONTENT
    assert server.starts == [start]


def test_cut_connection_then_continue(server, tmp_path, monkeypatch):
    monkeypatch.setattr(Handler, "cut", 300)
    with pytest.raises(InputError, match=r"300 bytes came, expected 5120; run again to continue"):
        download(server.url, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    monkeypatch.setattr(Handler, "cut", None)
    assert download(server.url, tmp_path / "file").read_bytes() == CONTENT
    assert server.starts == [0, 300]
