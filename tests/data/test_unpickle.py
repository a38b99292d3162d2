"""Only arrays and plain containers come out of a pickle."""

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

    import io

    buffer = io.BytesIO()
    Old(buffer, protocol=2).dump(value)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


@pytest.mark.parametrize("write", [in_python_2, pickle.dumps], ids=["python 2", "python 3"])
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


def test_a_pickle_of_something_else_is_refused():
    with pytest.raises(DataError, match="got 'list', expected a dictionary"):
        load_arrays(pickle.dumps([1]), "batch")


@given(st.binary(max_size=60), st.integers(0, 150))
@settings(max_examples=100, deadline=None)
def test_damaged_pickles_are_data_errors(noise, place):
    data = pickle.dumps({"data": np.zeros(3, np.uint8)}, protocol=2)
    try:
        load_arrays(data[:place] + noise + data[place + len(noise) :], "batch")
    except DataError as error:
        assert "batch" in str(error)
