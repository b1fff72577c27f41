"""What a number was measured on."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CPUS = Path("/proc/cpuinfo")  # where Linux names them; platform does not


def cpu_name() -> str:
    """Return what the processor is called, as well as this system knows."""
    lines = CPUS.read_text().splitlines() if CPUS.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def machine(device: "torch.device | None" = None) -> str:
    """Return processor or accelerator, threads and torch in a few words.

    Examples:
        >>> import torch
        >>> machine().endswith(f"torch {torch.__version__}")
        True
    """
    import torch

    if device is not None and device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    threads = torch.get_num_threads()
    return f"{cpu_name()}, {threads} thread{'s' * (threads != 1)}, torch {torch.__version__}"
