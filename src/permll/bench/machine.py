"""Hardware and software that numbers were measured on."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CPUINFO = Path("/proc/cpuinfo")  # platform.processor() is empty on Linux


def cpu_name() -> str:
    """Return the name of the CPU, or its architecture if the name is unknown."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def describe_machine(device: "torch.device | None" = None) -> str:
    """Return the CPU or GPU, the number of threads and the torch version.

    Examples:
        >>> import torch
        >>> describe_machine().endswith(f"torch {torch.__version__}")
        True
    """
    import torch

    if device is not None and device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    threads = torch.get_num_threads()
    return f"{cpu_name()}, {threads} thread{'s' * (threads != 1)}, torch {torch.__version__}"
