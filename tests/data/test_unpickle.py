"""Only arrays and plain containers come out of a pickle."""

import functools
import io
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reslab.data.unpickle import load_arrays
from reslab.errors import DataError


def in_python_2(value):
    """The pickle as Python 2 and numpy 1 wrote it: old module name, integer flags of the dtype."""

    class Old(pickle.Pickler):
        def reducer_override(self, item):
            if isinstance(item, np.dtype):
                make, _, state = item.__reduce__()
                return make, ("u1", 0, 1), state
            return NotImplemented

    buffer = io.BytesIO()
    Old(buffer, protocol=2).dump(value)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


WRITERS = {"python 2": in_python_2} | {
    f"protocol {n}": functools.partial(pickle.dumps, protocol=n) for n in range(2, 6)
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_arrays_lists_and_text_come_back(write):
    value = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2], "name": "a"}
    back = load_arrays(write(value), "here")
    assert back["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (back["labels"], back["name"]) == ([1, 2], "a")


class Runs:
    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


@pytest.mark.parametrize("call", [os.system, eval, getattr, np.load, print])
def test_nothing_in_a_pickle_is_run(call, tmp_path):
    data = pickle.dumps({"data": Runs(call, f"touch {tmp_path}/run")})
    with pytest.raises(DataError, match=r"cannot read batch .*is not allowed"):
        load_arrays(data, "batch")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(2, np.float32), "arrays of 'f4' are not allowed"),
        (np.zeros(2, object), "arrays of 'O8' are not allowed"),
        (np.zeros(2, ">i8"), "big-endian arrays are not allowed"),
    ],
)
def test_arrays_of_other_kinds_are_refused(array, message):
    with pytest.raises(DataError, match=message):
        load_arrays(pickle.dumps({"data": array}), "batch")


def test_integers_and_column_order_come_back():
    value = {"a": np.array([1, -2]), "b": np.asfortranarray(np.arange(6, dtype=np.uint8)[None])}
    back = load_arrays(pickle.dumps(value), "batch")
    assert back["a"].tolist() == [1, -2]
    assert back["b"].tolist() == [[0, 1, 2, 3, 4, 5]]


def test_an_array_whose_bytes_do_not_fill_it_is_refused():
    data = pickle.dumps({"data": np.zeros(3, np.uint8)}, protocol=2)
    with pytest.raises(DataError, match=r"3 bytes for an array of \(4,\)"):
        load_arrays(data.replace(b"K\x03\x85", b"K\x04\x85"), "batch")


def test_a_pickle_of_something_else_is_refused():
    with pytest.raises(DataError, match="got 'list', expected a dictionary"):
        load_arrays(pickle.dumps([1]), "batch")


@given(st.binary(max_size=60), st.integers(0, 150))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_damaged_pickles_are_data_errors(noise, place):
    data = pickle.dumps({"data": np.zeros(3, np.uint8)}, protocol=2)
    try:
        load_arrays(data[:place] + noise + data[place + len(noise) :], "batch")
    except DataError as error:
        assert "batch" in str(error)
