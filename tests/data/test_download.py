"""A download is whole and right, goes on where it broke, or says why not."""

import contextlib
import hashlib
import http.server
import os
import stat
import threading

import pytest

from reslab.data.download import download, npm_pack
from reslab.errors import DataError, MissingDependencyError

CONTENT = bytes(range(256)) * 3000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        asked = self.headers.get("Range")
        start = int(asked[6:-1]) if asked and server.knows_ranges else 0
        if start and start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else server.status)
        body = server.content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut, server.break_after = server.break_after, None
        self.wfile.write(body if cut is None else body[:cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.status, server.break_after = CONTENT, 200, None
        server.knows_ranges, server.asked = True, []
        server.url = f"http://127.0.0.1:{server.server_port}/file.tar.gz"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_fetched_and_told_about(server, tmp_path):
    told = []
    path = download(server.url, tmp_path / "a", md5=MD5, progress=lambda *now: told.append(now))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert names(tmp_path) == ["a"]


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    server.break_after = 100_000
    with pytest.raises(DataError, match=r"broke after 100000 of 768000 bytes.*try again to go on"):
        download(server.url, tmp_path / "a", md5=MD5)
    assert names(tmp_path) == ["a.part"]
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]


def test_a_server_without_ranges_sends_it_all_again(server, tmp_path):
    server.knows_ranges = False
    (tmp_path / "a.part").write_bytes(CONTENT[:1000])
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT


@pytest.mark.parametrize("old", [b"x" * 1000, b"x" * 900_000], ids=["shorter", "longer"])
def test_a_part_of_another_file_is_thrown_away(server, tmp_path, old):
    (tmp_path / "a.part").write_bytes(old)
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT
    assert server.asked[-1] is None


def test_a_whole_part_needs_no_more_bytes(server, tmp_path):
    (tmp_path / "a.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT


def test_a_web_page_in_place_of_the_file_is_called_that(server, tmp_path):
    server.content = b"\n<!DOCTYPE html><html>Please log in</html>"
    with pytest.raises(DataError, match=f"gave another file: got 'a web page.*expected MD5 {MD5}"):
        download(server.url, tmp_path / "a", md5=MD5)
    assert names(tmp_path) == []


def test_another_file_shows_both_sums(server, tmp_path):
    server.content = b"other"
    found = hashlib.md5(b"other").hexdigest()
    with pytest.raises(DataError, match=f"got 'MD5 {found}', expected MD5 {MD5}"):
        download(server.url, tmp_path / "a", md5=MD5)
    assert names(tmp_path) == []


def test_a_refusal_of_the_server_is_one_sentence(server, tmp_path):
    server.content, server.status = b"gone", 404
    with pytest.raises(DataError, match="the server says HTTP Error 404"):
        download(server.url, tmp_path / "a", md5=MD5)


def test_a_server_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"cannot download .*Connection refused"):
        download("http://127.0.0.1:9/a", tmp_path / "a", md5=MD5)
    assert names(tmp_path) == []


@contextlib.contextmanager
def program(folder, text):
    path = folder / "bin" / "npm"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        yield


def test_an_npm_package_is_the_tarball_that_npm_leaves(tmp_path):
    with program(tmp_path, 'echo packed > "$5/toy-1.0.tgz"'):
        assert npm_pack("toy@1.0", tmp_path).read_text() == "packed\n"


def test_npms_own_last_words_are_passed_on(tmp_path):
    with (
        program(tmp_path, "echo noise >&2; echo '404 no such package' >&2; exit 1"),
        pytest.raises(DataError, match=r"npm pack toy failed \(404 no such package\)"),
    ):
        npm_pack("toy", tmp_path)


def test_without_npm_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="npm is not installed"):
        npm_pack("toy", tmp_path)
