"""A reader of pickles that can run no code: plain values and NumPy arrays come out, anything else is refused.

CIFAR's python batches and the CIFAR-N label files are pickles. A pickle is a program that may call whatever it can
name, so the reader here decides what it can name: the few things an array is rebuilt from, and nothing else.
"""

import pickle
import zipfile
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

# What torch.save wrote at the head of a file before it became a zip archive.
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C


class RefusedPickleError(ValueError):
    """The file asks for more than values and arrays, or is no pickle at all."""


def _reconstruct(kind: type, shape: tuple[int, ...], _typecode: object) -> np.ndarray[Any, Any]:
    """Make the empty array that an array's state is then written into, as NumPy's pickles do."""
    if kind is not np.ndarray or shape != (0,):
        raise RefusedPickleError("an array in it is built in an unusual way")
    return np.empty(0, np.uint8)


def _frombuffer(values: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any) -> np.ndarray[Any, Any]:
    """Make an array of its bytes, as NumPy's pickles of protocol 5 do."""
    return np.frombuffer(values, dtype).reshape(shape, order=order).copy(order)


def _encode(text: str, encoding: str) -> bytes:
    """Turn text into bytes, as pickles of old protocols write them."""
    if encoding != "latin1":
        raise RefusedPickleError(f"bytes in it are encoded as {encoding!r}")
    return text.encode("latin1")


def _plain_dtype(code: str, *_: object) -> np.dtype[Any]:
    """Return a type of numbers or text; arrays of Python objects are refused."""
    dtype = np.dtype(str(code), copy=True)  # its byte order is written into it next; the shared one would ignore that
    if dtype.kind not in "biufUS":
        raise RefusedPickleError(f"an array in it holds {dtype}, not numbers or text")
    return dtype


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _plain_dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): dict,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise RefusedPickleError(f"it asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> NoReturn:  # noqa: ARG002
        raise RefusedPickleError("it refers to data outside the pickle")


def read_pickle(path: Path) -> Any:
    """Return what a pickle file holds: dicts, lists, text, numbers, arrays. Text of Python 2 is read as Latin-1.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "batch"
        >>> _ = path.write_bytes(pickle.dumps({"labels": [1, 2]}))
        >>> read_pickle(path)
        {'labels': [1, 2]}
    """
    with path.open("rb") as file:
        return _read(file, path)


def read_torch(path: Path) -> Any:
    """Return what ``torch.save`` wrote, in its zip or its older format, if it is values and NumPy arrays."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(names) != 1:
                raise RefusedPickleError(f"{path} is a zip file, but not one that torch.save wrote.")
            with archive.open(names[0]) as file:
                return _read(file, path)
    with path.open("rb") as file:
        value = _read(file, path)
        if value == _TORCH_MAGIC:
            _version, _system, value = (_read(file, path) for _ in range(3))
        return value


def _read(file: IO[bytes], path: Path) -> Any:
    try:
        return _Reader(file, encoding="latin1").load()
    except RefusedPickleError as refused:
        raise RefusedPickleError(f"{path} was not read: {refused}, and a data file has no business to.") from None
    except MemoryError:
        raise
    except Exception as broken:  # a damaged pickle can fail in any way at all
        raise RefusedPickleError(f"{path} is damaged or no pickle: {broken or type(broken).__name__}.") from None
