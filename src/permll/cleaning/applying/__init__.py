"""Applying: the data set with its labels corrected, in the form it came in."""

from permll.cleaning.applying.correcting import Correction as Correction
from permll.cleaning.applying.correcting import corrections as corrections
from permll.cleaning.applying.exporting import Exported as Exported
from permll.cleaning.applying.exporting import export as export
from permll.cleaning.applying.whole import Applied as Applied
from permll.cleaning.applying.whole import apply as apply
from permll.cleaning.applying.whole import plan as plan
