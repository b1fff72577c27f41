"""Corrected data sets: write the labels that were reviewed or are proposed, in the format of the source."""

from permll.cleaning.apply.api import ApplyResult as ApplyResult
from permll.cleaning.apply.api import Plan as Plan
from permll.cleaning.apply.api import apply as apply
from permll.cleaning.apply.api import plan as plan
from permll.cleaning.apply.corrections import Correction as Correction
from permll.cleaning.apply.corrections import select_corrections as select_corrections
from permll.cleaning.apply.review_export import ExportResult as ExportResult
from permll.cleaning.apply.review_export import export as export
