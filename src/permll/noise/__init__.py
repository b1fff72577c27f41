"""Synthetic and human label noise, with a record of clean labels, noisy labels, noise and seed."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.noise.apply_noise import compose as compose
    from permll.noise.apply_noise import corrupt as corrupt
    from permll.noise.apply_noise import with_noise as with_noise
    from permll.noise.cifar_n import read_cifar_n as read_cifar_n
    from permll.noise.corruption import Corruption as Corruption
    from permll.noise.label_files import read_noisy_labels as read_noisy_labels
    from permll.noise.presets import named_noise as named_noise
    from permll.noise.synthetic import Noise as Noise

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "apply_noise": ("compose", "corrupt", "with_noise"),
        "cifar_n": ("read_cifar_n",),
        "corruption": ("Corruption",),
        "label_files": ("read_noisy_labels",),
        "synthetic": ("Noise",),
        "presets": ("named_noise",),
    },
)
