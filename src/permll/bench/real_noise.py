"""Data sets with real noisy labels for Table 2: labels of crowd workers or of labeling rules.

A file (.npz) contains ``x_train`` or ``text_train`` with clean labels ``y_train``, the same arrays for ``test``, and
the annotations of each training sample, -1 for none: either ``answers`` of crowd workers, from which each seed draws
one per sample, or ``rules_train``, whose majority is taken, with ties broken by the seed. LabelMe (Rodrigues and
Pereira 2018) and TREC with rules (Awasthi et al. 2020) have this form. Clean labels are used for evaluation only.
"""

from pathlib import Path
from typing import Any

import numpy as np

from permll.noise.annotators import has_answer, majority_vote, sample_answer
from permll.noise.corruption import Corruption, require_file
from permll.utils.files import atomic_write

RULES_SUFFIX = "_rules"


def dataset_name(file: Path) -> str:
    """Return the name of the data set in tables and folders.

    Examples:
        >>> dataset_name(Path("data/trec_rules.npz"))
        'trec'
    """
    return file.stem.removesuffix(RULES_SUFFIX)


def source_overrides(file: Path, out: Path, seed: int) -> dict[str, Any]:
    """Return the overrides of the recipe ``auto/default`` for the files that ``unpack`` writes."""
    folder = out / "data" / dataset_name(file)
    return {
        "data.source": str(folder / "train.npz"),
        "data.test": str(folder / "test.npz"),
        "data.noise": str(folder / f"noise-{seed}.npz"),
        "network.name": "mlp",
        "training.batch_size": 64,
    }


def unpack(file: Path, out: Path, seed: int) -> None:
    """Write the annotated training samples, the test samples, and the noisy labels of a seed."""
    folder = out / "data" / dataset_name(file)
    if (folder / f"noise-{seed}.npz").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with np.load(require_file(file, "file of noisy labels"), allow_pickle=False) as arrays:
        inputs = next((kind for kind in ("x", "text") if f"{kind}_train" in arrays), "x")
        required = [f"{kind}_{split}" for split in ("train", "test") for kind in (inputs, "y")]
        source = next((name for name in ("answers", "rules_train") if name in arrays), "answers")
        missing = [name for name in (*required, source) if name not in arrays]
        if missing:
            raise ValueError(
                f"{file} lacks the arrays {', '.join(missing)}: see permll.bench.real_noise for the format."
            )
        x_train, y_train, x_test, y_test = (arrays[name] for name in required)
        annotations = arrays[source]
    rows = np.flatnonzero(has_answer(annotations))
    num_classes = int(max(y_train.max(), y_test.max())) + 1
    given = (
        sample_answer(annotations, seed) if source == "answers" else majority_vote(annotations, num_classes, seed=seed)
    )
    for name, x, y in (("train", x_train[rows], y_train[rows]), ("test", x_test, y_test)):
        with atomic_write(folder / f"{name}.npz") as partial:
            np.savez_compressed(partial, x=x, y=y.astype(np.int64))
    metadata = {"name": f"file:{file.name}", "file": file.name}
    clean, noisy = y_train[rows].astype(np.int64), given[rows].astype(np.int64)
    # Written last: its presence means that all files are complete.
    Corruption(clean, noisy, num_classes, seed, metadata).save(folder / f"noise-{seed}.npz")
