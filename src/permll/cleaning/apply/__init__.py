"""Applying: the data set with its labels corrected, in the form it came in."""

from permll.cleaning.apply.api import Applied as Applied
from permll.cleaning.apply.api import apply as apply
from permll.cleaning.apply.api import plan as plan
from permll.cleaning.apply.corrections import Correction as Correction
from permll.cleaning.apply.corrections import corrections as corrections
from permll.cleaning.apply.review_export import Exported as Exported
from permll.cleaning.apply.review_export import export as export
