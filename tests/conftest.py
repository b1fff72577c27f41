import os
import signal

import pytest
import torch
from hypothesis import settings

# Pretrained networks are not downloaded by default; tests that use one name it.
os.environ["HF_HUB_OFFLINE"] = "1"

# The test runner uses all cores already; a second thread for each would only wait.
torch.set_num_threads(1)

# A shell that starts the tests in the background lets them ignore Ctrl-C, and with them every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine: a failure seen once is seen again.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
