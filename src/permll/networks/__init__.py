"""Built-in networks, networks of timm and torchvision, and pretrained encoders."""

from typing import TYPE_CHECKING

from permll._lazy import lazy

if TYPE_CHECKING:
    from permll.networks._registry import NETWORKS as NETWORKS
    from permll.networks._registry import NetworkInfo as NetworkInfo
    from permll.networks._registry import build_network as build_network

__getattr__, __dir__, __all__ = lazy(__name__, {"_registry": ("NETWORKS", "NetworkInfo", "build_network")})
