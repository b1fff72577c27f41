"""Least recently used cache of thumbnails."""

from collections import OrderedDict
from threading import Lock

from permll.cleaning.thumbnails import Thumbnail

SIZES = (160, 320, 1200)  # longest sides in pixels: neighbors, grid, single sample
MAX_BYTES = 64 * 2**20


class ThumbnailCache:
    """Thread-safe LRU cache, limited by the total size of its images.

    Examples:
        >>> cache = ThumbnailCache(max_bytes=5)
        >>> for row in (1, 2, 1, 3):
        ...     cache.put((row, 160), Thumbnail(b"ab", "image/png"))
        >>> [cache.get((row, 160)) is not None for row in (1, 2, 3)]
        [True, False, True]
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._bytes, self._lock = max_bytes, 0, Lock()
        self._images: OrderedDict[tuple[int, int], Thumbnail] = OrderedDict()

    def get(self, key: tuple[int, int]) -> Thumbnail | None:
        """Return the image of a row and size if it is cached."""
        with self._lock:
            if key in self._images:
                self._images.move_to_end(key)
            return self._images.get(key)

    def put(self, key: tuple[int, int], image: Thumbnail) -> None:
        """Add an image and evict the least recently used ones."""
        with self._lock:
            self._bytes += len(image.content) - len(self._images.pop(key, Thumbnail(b"", "")).content)
            self._images[key] = image
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._images.popitem(last=False)[1].content)
