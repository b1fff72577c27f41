"""Pictures that were asked for: the last ones are kept."""

from collections import OrderedDict
from threading import Lock

from permll.cleaning.thumbnails import Thumbnail

SIDES = (160, 320, 1200)  # longest sides that may be asked for: beside others, in a grid, alone
KEPT = 64 * 2**20  # bytes


class ThumbnailCache:
    """The pictures that were asked for last, as many as fit into some memory.

    Examples:
        >>> kept = ThumbnailCache(most=5)
        >>> for row in (1, 2, 1, 3):
        ...     kept.put((row, 160), Thumbnail(b"ab", "image/png"))
        >>> [kept.get((row, 160)) is not None for row in (1, 2, 3)]
        [True, False, True]
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most, self._size, self._lock = most, 0, Lock()
        self._pictures: OrderedDict[tuple[int, int], Thumbnail] = OrderedDict()

    def get(self, key: tuple[int, int]) -> Thumbnail | None:
        """Return the picture of a row and side, if it is still there."""
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
            return self._pictures.get(key)

    def put(self, key: tuple[int, int], picture: Thumbnail) -> None:
        """Keep a picture; those not asked for longest make place."""
        with self._lock:
            self._size += len(picture.content) - len(self._pictures.pop(key, Thumbnail(b"", "")).content)
            self._pictures[key] = picture
            while self._size > self._most:
                self._size -= len(self._pictures.popitem(last=False)[1].content)
