"""The instance-dependent permutation layer: its equations, its readable reference, its module."""

from permll.layer.module import PermutationLayer as PermutationLayer
