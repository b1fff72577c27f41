"""What a run came to, in words."""

from collections.abc import Mapping
from typing import Any

_NAMES = {
    "last": "Test accuracy, last epoch",
    "best_by_noisy_validation": "Test accuracy, epoch chosen by noisy validation",
    "best_by_clean_validation": "Test accuracy, epoch chosen by clean validation",
    "best_test": "Test accuracy, best epoch",
}


def run_summary(run: Any) -> str:
    """Return the numbers of a finished run; those that only an oracle could choose are marked."""
    result, recipe = run.result, run.recipe
    final: Mapping[str, Any] = result.get("final", result.get("last", {}))
    oracle = set(result.get("oracle", ()))
    lines = [f"{recipe.method.name} on {recipe.data.source}, {recipe.data.noise or 'labels as they are'}: {run.folder}"]
    for key, name in _NAMES.items():
        if isinstance(result.get(key), float):
            lines.append(f"  {name + (' (oracle)' if key in oracle else ''):58} {100 * result[key]:6.2f} %")
    for key, name in (("correction_accuracy_before", "before"), ("correction_accuracy_after", "after")):
        if final.get(key) is not None:
            lines.append(f"  {f'Right training labels, {name}':58} {100 * final[key]:6.2f} %")
    if final.get("detection_auroc") is not None:
        lines.append(f"  {'Wrong labels found: AUROC of the quality score':58} {100 * final['detection_auroc']:6.2f} %")
    return "\n".join(lines)
