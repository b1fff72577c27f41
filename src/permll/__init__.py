"""PermLL: train on wrong labels, find them, correct them.

The public names. Importing this module imports torch and nothing else that is heavy.
"""

from permll._version import __version__ as __version__
from permll.layer.module import PermutationLayer as PermutationLayer
