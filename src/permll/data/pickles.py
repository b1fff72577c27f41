"""A reader of pickles that can run no code: plain values and NumPy arrays come out, anything else is refused.

CIFAR's python batches and the CIFAR-N label files are pickles. A pickle is a program that may call whatever it can
name, so the reader here decides what it can name: stand-ins of its own for the few things an array is rebuilt from. Not
even NumPy's own are handed out: fed with the wrong numbers, they reach memory that is not theirs.
"""

import pickle
import zipfile
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

# What torch.save wrote at the head of a file before it became a zip archive.
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
_KINDS = "biufUS"  # numbers, truth values, text: never Python objects


class RefusedPickleError(ValueError):
    """The file asks for more than values and arrays, or is no pickle at all."""


class _Dtype:
    """A type of array elements, as a pickle describes it: a code, then its byte order."""

    __slots__ = ("value",)

    def __init__(self, code: object, *_: object) -> None:
        self.value = np.dtype(str(code))
        if self.value.kind not in _KINDS:
            raise RefusedPickleError(f"an array in it holds {self.value}, not numbers or text")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise RefusedPickleError(f"an array in it has the byte order {order!r}")
        self.value = self.value.newbyteorder(order)


class _Array:
    """An array, as a pickle describes it: shape, type, order and bytes, which must fit each other."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: np.ndarray[Any, Any] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, by_columns, content = state
        self.fill(content, dtype, shape, "F" if by_columns else "C")

    def fill(self, content: Any, dtype: Any, shape: Any, order: Any) -> None:
        """Take in the bytes; NumPy checks that there are as many as the shape says."""
        if isinstance(content, str):
            content = content.encode("latin1")  # bytes of Python 2
        sizes = isinstance(shape, tuple) and all(isinstance(size, int) and size >= 0 for size in shape)
        if not sizes or not isinstance(dtype, _Dtype) or not isinstance(content, bytes | bytearray):
            raise RefusedPickleError("an array in it is built in an unusual way")
        values = np.frombuffer(content, dtype.value).reshape(shape, order=order)
        self.value = values.astype(values.dtype.newbyteorder("="), order="K", copy=True)


class _Rebuild:
    """Stands in for the function that begins an array. Without attributes, so that no pickle can change it."""

    __slots__ = ()

    def __call__(self, *_: object) -> _Array:
        return _Array()


class _FromBuffer:
    """Stands in for the function that makes an array at once, in pickles of protocol 5."""

    __slots__ = ()

    def __call__(self, content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
        array = _Array()
        array.fill(content, dtype, shape, order)
        return array


class _Encode:
    """Stands in for the function that old protocols make bytes with."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise RefusedPickleError(f"bytes in it are encoded as {encoding!r}")
        return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Rebuild(),
    ("numpy._core.multiarray", "_reconstruct"): _Rebuild(),
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer(),
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer(),
    ("numpy", "ndarray"): "ndarray",  # only ever handed on to the first of these
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode(),
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
        return _read_zip(path)
    with path.open("rb") as file:
        value = _read(file, path)
        if isinstance(value, int) and value == _TORCH_MAGIC:
            _version, _system, value = (_read(file, path) for _ in range(3))
        return value


def _read_zip(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(names) != 1:
                raise RefusedPickleError(f"{path} is a zip file, but not one that torch.save wrote.")
            with archive.open(names[0]) as file:
                return _read(file, path)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as broken:
        raise RefusedPickleError(f"{path} is a zip file that cannot be read: {broken}.") from None


def _read(file: IO[bytes], path: Path) -> Any:
    try:
        return _plain(_Reader(file, encoding="latin1").load())
    except RefusedPickleError as refused:
        raise RefusedPickleError(f"{path} was not read: {refused}, and a data file has no business to.") from None
    except Exception as broken:  # a damaged pickle can fail in any way at all
        raise RefusedPickleError(f"{path} is damaged or no pickle: {broken or type(broken).__name__}.") from None


def _plain(value: Any) -> Any:
    """Return the value with real arrays in it, and nothing that is not a plain value."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | bytearray):
        return value
    raise RefusedPickleError(f"it holds a {type(value).__name__.strip('_')}")
