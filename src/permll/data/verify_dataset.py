"""Verification of built-in datasets: sample counts, classes, digests and image files of each split."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from permll.data.dataset import LabeledData
from permll.data.datasets.dataset_files import DatasetNotFoundError
from permll.data.decoding import UnreadableImagesError, find_unreadable, format_reasons
from permll.data.download import file_md5
from permll.data.inputs import LazyImages
from permll.data.registry import DatasetInfo, data_root, find_dataset
from permll.data.remote_files import CONTENT_MD5
from permll.utils.messages import format_list


@dataclass(frozen=True)
class CheckResult:
    """Result of one check."""

    split: str  # or all splits with the same result
    check: str  # "location", "samples", "classes", "content" or "images"
    passed: bool
    detail: str
    names: tuple[str, ...] = ()  # all files or ids that failed


def verify_dataset(name: str, root: Path | str | None = None) -> list[CheckResult]:
    """Check a dataset in ``root``; every image is decoded.

    Examples:
        >>> [result.detail for result in verify_dataset("digits") if result.check == "samples"]
        ['1,347', '450']
    """
    info, root = find_dataset(name), data_root(root)
    results: list[CheckResult] = []
    missing: list[CheckResult] = []
    for split in info.samples:
        try:
            results += _verify_split(info, root, split)
        except DatasetNotFoundError as error:
            missing.append(CheckResult(split, "location", False, str(error)))
            results.append(missing[-1])
    if len(missing) == len(info.samples):  # one message for all splits
        return [replace(missing[0], split=", ".join(info.samples))]
    return results


def find_complete(name: str, root: Path | str | None = None) -> list[Path]:
    """Return the folders of a dataset that passes all checks, in any official layout; otherwise [].

    Examples:
        >>> find_complete("cifar10", "no/such/folder")
        []
    """
    results = verify_dataset(name, root)
    if not all(result.passed for result in results):
        return []
    return [Path(path) for path in dict.fromkeys(result.detail for result in results if result.check == "location")]


def _verify_split(info: DatasetInfo, root: Path, split: str) -> Iterator[CheckResult]:
    try:
        data = info.load(root, split)
    except UnreadableImagesError as error:
        yield CheckResult(split, "images", False, str(error), error.names)
        return
    except DatasetNotFoundError:
        raise
    except (OSError, ValueError, ImportError) as error:
        yield CheckResult(split, "location", False, str(error))
        return
    yield CheckResult(split, "location", True, str(data.metadata["source"]))
    expected = info.samples[split]
    is_right = len(data) == expected
    yield CheckResult(split, "samples", is_right, f"{len(data):,}" + ("" if is_right else f", not {expected:,}"))
    yield _verify_classes(data, split)
    yield from _verify_content(info, data, split)
    if isinstance(data.inputs, LazyImages):
        errors = find_unreadable(data.inputs, data.ids)
        detail = "all readable"
        if errors:
            detail = f"{format_list(format_reasons(errors), 'image')} cannot be read: copy each again"
        yield CheckResult(split, "images", not errors, detail, tuple(errors))


def _verify_classes(data: LabeledData, split: str) -> CheckResult:
    counts = data.class_counts.tolist()
    empty = tuple(name for name, count in zip(data.classes, counts, strict=True) if not count)
    low, high = min(counts), max(counts)
    spread = f"{low:,} to {high:,} samples"
    if low == high:
        spread = f"{high:,} sample{'s' if high != 1 else ''} each"
    detail = f"{len(counts)} classes, {spread}" + (f", none in {format_list(empty, 'class')}" if empty else "")
    return CheckResult(split, "classes", not empty, detail, empty)


def _verify_content(info: DatasetInfo, data: LabeledData, split: str) -> Iterator[CheckResult]:
    """Compare the digests of the files with the published ones, where known."""
    digests = CONTENT_MD5.get(info.name, {})
    paths = [Path(data.metadata["source"]) / name for name in data.metadata.get("files", ())]
    expected = {path: digests[name] for path in paths if (name := path.name.removesuffix(".gz")) in digests}
    if expected:
        wrong = [path.name for path, digest in expected.items() if file_md5(path, decompress=True) != digest]
        names = ", ".join(path.name for path in expected)
        detail = f"{format_list(wrong, 'file')} not as published: get it again" if wrong else f"{names} as published"
        yield CheckResult(split, "content", not wrong, detail, tuple(wrong))
