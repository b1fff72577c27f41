"""What a sample looks like to a network this time: augmentation of whole batches, a pure function of its keys."""

from permll.data.views.defaults import default_views as default_views
from permll.data.views.images import CentreCrop as CentreCrop
from permll.data.views.images import Chain as Chain
from permll.data.views.images import Crop as Crop
from permll.data.views.images import Cutout as Cutout
from permll.data.views.images import Flip as Flip
from permll.data.views.images import Normalise as Normalise
from permll.data.views.images import View as View
from permll.data.views.mixing import Mix as Mix
from permll.data.views.mixing import mixup as mixup
from permll.data.views.policies import AutoAugment as AutoAugment
from permll.data.views.policies import RandAugment as RandAugment
from permll.data.views.vectors import Drop as Drop
from permll.data.views.vectors import Jitter as Jitter
from permll.data.views.vectors import Standardise as Standardise
