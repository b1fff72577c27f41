"""Safe reader of pickles: returns plain values and NumPy arrays, and rejects everything else.

CIFAR's python batches and the CIFAR-N label files are pickles. A pickle can call any function that it can name; this
reader resolves names only to its own stand-ins for the few objects that arrays are built from. NumPy's own constructors
are not used: with wrong arguments they access invalid memory.
"""

import pickle
import zipfile
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

_TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # first object in files of torch.save before the zip format
_DTYPE_KINDS = "biufUS"  # numbers, booleans, text; no Python objects


class UnsafePickleError(ValueError):
    """The file contains more than values and arrays, or is not a valid pickle."""


class _Dtype:
    """Element type of an array: a code, then its byte order."""

    __slots__ = ("value",)

    def __init__(self, code: object, *_: object) -> None:
        self.value = np.dtype(str(code))
        if self.value.kind not in _DTYPE_KINDS:
            raise UnsafePickleError(f"an array holds {self.value}, not numbers or text")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise UnsafePickleError(f"an array has the byte order {order!r}")
        self.value = self.value.newbyteorder(order)


class _Array:
    """Array: shape, type, order and bytes, which must fit each other."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: np.ndarray[Any, Any] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, is_fortran, content = state
        self.fill(content, dtype, shape, "F" if is_fortran else "C")

    def fill(self, content: Any, dtype: Any, shape: Any, order: Any) -> None:
        """Set the content; NumPy checks that its length fits the shape."""
        if isinstance(content, str):
            content = content.encode("latin1")  # bytes of Python 2
        is_shape = isinstance(shape, tuple) and all(isinstance(size, int) and size >= 0 for size in shape)
        if not is_shape or not isinstance(dtype, _Dtype) or not isinstance(content, bytes | bytearray):
            raise UnsafePickleError("an array is built in an unusual way")
        values = np.frombuffer(content, dtype.value).reshape(shape, order=order)
        self.value = values.astype(values.dtype.newbyteorder("="), order="K", copy=True)


# The stand-ins have no attributes, so that no pickle can change them.
class _Reconstruct:
    """Stand-in for the function that creates an empty array."""

    __slots__ = ()

    def __call__(self, *_: object) -> _Array:
        return _Array()


class _FromBuffer:
    """Stand-in for the function that creates a complete array (protocol 5)."""

    __slots__ = ()

    def __call__(self, content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
        array = _Array()
        array.fill(content, dtype, shape, order)
        return array


class _Encode:
    """Stand-in for the function that creates bytes (old protocols)."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise UnsafePickleError(f"bytes are encoded as {encoding!r}")
        return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer(),
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer(),
    ("numpy", "ndarray"): "ndarray",  # only an argument of _reconstruct
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode(),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise UnsafePickleError(f"it uses {module}.{name}") from None

    def persistent_load(self, pid: Any) -> NoReturn:  # noqa: ARG002
        raise UnsafePickleError("it refers to data outside the pickle")


def read_pickle(path: Path) -> Any:
    """Return the dicts, lists, text, numbers and arrays of a pickle file. Text of Python 2 is read as Latin-1.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "batch"
        >>> _ = path.write_bytes(pickle.dumps({"labels": [1, 2]}))
        >>> read_pickle(path)
        {'labels': [1, 2]}
    """
    with path.open("rb") as file:
        return _load(file, path)


# Not torch.load(weights_only=True): it reads NumPy arrays only if NumPy's own constructors are allowed.
def read_torch(path: Path) -> Any:
    """Return the values and NumPy arrays in a file of ``torch.save``, in its zip or its older format."""
    if zipfile.is_zipfile(path):
        return _read_zip(path)
    with path.open("rb") as file:
        value = _load(file, path)
        if isinstance(value, int) and value == _TORCH_MAGIC:
            _version, _system, value = (_load(file, path) for _ in range(3))
        return value


def _read_zip(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(names) != 1:
                raise UnsafePickleError(f"{path} is a zip file, but not one of torch.save.")
            with archive.open(names[0]) as file:
                return _load(file, path)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise UnsafePickleError(f"{path} is a damaged zip file: {error}.") from None


def _load(file: IO[bytes], path: Path) -> Any:
    try:
        return _to_plain(_Unpickler(file, encoding="latin1").load())
    except UnsafePickleError as error:
        raise UnsafePickleError(f"{path} was rejected, since it may run code: {error}.") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise UnsafePickleError(f"{path} is damaged or not a pickle: {error or type(error).__name__}.") from None


def _to_plain(value: Any) -> Any:
    """Return the value with NumPy arrays for stand-ins; reject anything but plain values."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        return {_to_plain(key): _to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_to_plain, value))
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | bytearray):
        return value
    raise UnsafePickleError(f"it contains a {type(value).__name__.strip('_')}")
