"""Pictures that were asked for are kept, as many as fit."""

from permll.cleaning.thumbnails import Picture
from permll.review.thumbnail_cache import ThumbnailCache


def test_thumbnail_cache_is_bounded() -> None:
    kept = ThumbnailCache(max_bytes=100)
    for row in range(50):
        kept.put((row, 160), Picture(bytes(10), "image/png"))
        assert kept.get((0, 160)) is not None  # asked for again and again
    assert [row for row in range(50) if kept.get((row, 160))] == [0, *range(41, 50)]
