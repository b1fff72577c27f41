"""The instance-dependent permutation layer: closed forms, reference implementation, module and per-sample state."""

from permll.layer.module import PermutationLayer as PermutationLayer
