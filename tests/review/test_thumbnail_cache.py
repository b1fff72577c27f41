"""Size limit of the thumbnail cache."""

from permll.cleaning.thumbnails import Thumbnail
from permll.review.thumbnail_cache import ThumbnailCache


def test_thumbnail_cache_is_bounded() -> None:
    cache = ThumbnailCache(max_bytes=100)
    for row in range(50):
        cache.put((row, 160), Thumbnail(bytes(10), "image/png"))
        assert cache.get((0, 160)) is not None  # asked for again and again
    assert [row for row in range(50) if cache.get((row, 160))] == [0, *range(41, 50)]
