"""Label noise with a pedigree: what was flipped, how, from which seed, and how much it came to."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.noise.apply_noise import with_noise as with_noise
    from permll.noise.compose import then as then
    from permll.noise.corruption import Corruption as Corruption
    from permll.noise.corruption import corrupt as corrupt
    from permll.noise.human import human_labels as human_labels
    from permll.noise.label_files import label_file as label_file
    from permll.noise.models import Noise as Noise
    from permll.noise.presets import named_noise as named_noise

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "apply_noise": ("with_noise",),
        "corruption": ("Corruption", "corrupt"),
        "label_files": ("label_file",),
        "human": ("human_labels",),
        "compose": ("then",),
        "models": ("Noise",),
        "presets": ("named_noise",),
    },
)
