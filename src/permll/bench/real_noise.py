"""Real noisy labels for Table 2 where Clothing1M is out of reach: answers of a crowd, or of rules.

A file (.npz) holds ``x_train`` or ``text_train`` with their true labels ``y_train``, the same of ``test``, and who said
what about each training row, -1 for nothing: ``answers`` of a crowd, of which each seed draws one for a row, or
``rules_train``, of which the majority counts and each seed breaks the ties. LabelMe (Rodrigues and Pereira 2018) and
TREC with rules (Awasthi et al. 2020) are such files. The true labels are for the judge alone.
"""

from pathlib import Path
from typing import Any

import numpy as np

from permll.noise._paths import require_file
from permll.noise.annotators import has_answer, majority_vote, sample_answer
from permll.noise.corruption import Corruption
from permll.utils.files import atomic_write

SUFFIX = "_rules"


def name_of(file: Path) -> str:
    """Return what a data set is called in tables and folders.

    Examples:
        >>> name_of(Path("data/trec_rules.npz"))
        'trec'
    """
    return file.stem.removesuffix(SUFFIX)


def changes_for(file: Path, out: Path, seed: int) -> dict[str, Any]:
    """Return what a recipe for one's own data needs to train on what ``unpack`` makes of a file."""
    folder = out / "data" / name_of(file)
    return {
        "data.source": str(folder / "train.npz"),
        "data.test": str(folder / "test.npz"),
        "data.noise": str(folder / f"noise-{seed}.npz"),
        "network.name": "mlp",
        "training.batch_size": 64,
    }


def unpack(file: Path, out: Path, seed: int) -> None:
    """Write the training rows that have an answer, the test rows, and the record of a seed's noisy labels."""
    folder = out / "data" / name_of(file)
    if (folder / f"noise-{seed}.npz").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with np.load(require_file(file, "file of noisy labels"), allow_pickle=False) as arrays:
        inputs = next((kind for kind in ("x", "text") if f"{kind}_train" in arrays), "x")
        needed = [f"{kind}_{part}" for part in ("train", "test") for kind in (inputs, "y")]
        who = next((name for name in ("answers", "rules_train") if name in arrays), "answers")
        lacking = [name for name in (*needed, who) if name not in arrays]
        if lacking:
            raise ValueError(f"{file} has no {', '.join(lacking)}: real noise is read from x_train, y_train, ...")
        x_train, y_train, x_test, y_test = (arrays[name] for name in needed)
        said = arrays[who]
    rows = np.flatnonzero(has_answer(said))
    classes = int(max(y_train.max(), y_test.max())) + 1
    given = sample_answer(said, seed) if who == "answers" else majority_vote(said, classes, seed=seed)
    for name, x, y in (("train", x_train[rows], y_train[rows]), ("test", x_test, y_test)):
        with atomic_write(folder / f"{name}.npz") as partial:
            np.savez_compressed(partial, x=x, y=y.astype(np.int64))
    about = {"name": f"file:{file.name}", "file": file.name}
    clean, noisy = y_train[rows].astype(np.int64), given[rows].astype(np.int64)
    Corruption(clean, noisy, classes, seed, about).save(folder / f"noise-{seed}.npz")  # last: now all is there
