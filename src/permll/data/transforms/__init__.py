"""Augmentation of whole batches: transforms are pure functions of a batch and its keys."""

from permll.data.transforms.defaults import default_views as default_views
from permll.data.transforms.image_transforms import CenterCrop as CenterCrop
from permll.data.transforms.image_transforms import Compose as Compose
from permll.data.transforms.image_transforms import Cutout as Cutout
from permll.data.transforms.image_transforms import Normalize as Normalize
from permll.data.transforms.image_transforms import RandomCrop as RandomCrop
from permll.data.transforms.image_transforms import RandomHorizontalFlip as RandomHorizontalFlip
from permll.data.transforms.image_transforms import Transform as Transform
from permll.data.transforms.mixing import Mix as Mix
from permll.data.transforms.mixing import mixup as mixup
from permll.data.transforms.policies import AutoAugment as AutoAugment
from permll.data.transforms.policies import RandAugment as RandAugment
from permll.data.transforms.vector_transforms import FeatureDropout as FeatureDropout
from permll.data.transforms.vector_transforms import GaussianNoise as GaussianNoise
from permll.data.transforms.vector_transforms import Standardize as Standardize
