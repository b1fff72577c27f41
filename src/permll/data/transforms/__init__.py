"""What a sample looks like to a network this time: augmentation of whole batches, a pure function of its keys."""

from permll.data.transforms.defaults import default_views as default_views
from permll.data.transforms.image_transforms import CenterCrop as CenterCrop
from permll.data.transforms.image_transforms import Chain as Chain
from permll.data.transforms.image_transforms import Crop as Crop
from permll.data.transforms.image_transforms import Cutout as Cutout
from permll.data.transforms.image_transforms import Flip as Flip
from permll.data.transforms.image_transforms import Normalize as Normalize
from permll.data.transforms.image_transforms import Transform as Transform
from permll.data.transforms.mixing import Mix as Mix
from permll.data.transforms.mixing import mixup as mixup
from permll.data.transforms.policies import AutoAugment as AutoAugment
from permll.data.transforms.policies import RandAugment as RandAugment
from permll.data.transforms.vector_transforms import Drop as Drop
from permll.data.transforms.vector_transforms import Jitter as Jitter
from permll.data.transforms.vector_transforms import Standardize as Standardize
