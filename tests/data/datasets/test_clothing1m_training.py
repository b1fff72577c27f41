"""Training on a copy of Clothing1M with sampling balanced by corrected labels."""

from pathlib import Path

import pytest
import torch
from torch import nn

from permll import PermutationLayer
from permll.data import Stream, load
from permll.data.transforms import Compose, RandomCrop, RandomHorizontalFlip, default_views
from permll.data.transforms.defaults import IMAGENET
from tests.helpers.clothing1m_files import LEARNABLE_CLASSES, true_class, write_learnable_clothing1m

CLASSES = 14


@pytest.mark.slow
def test_training_with_balanced_sampling_by_corrected_labels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    root = write_learnable_clothing1m(tmp_path)
    data, test = (load("clothing1m", root=root, split=split, size=16) for split in ("train", "test"))
    true = torch.tensor([true_class(number) for number in range(len(data))])
    wrong = data.labels != true
    assert wrong.sum() == 24
    assert default_views(data.inputs).keys() == {"plain", "weak", "strong"}
    weak = Compose(RandomCrop(14), RandomHorizontalFlip(), IMAGENET)
    stream = Stream(data, 24, views={"weak": weak}, order="weighted", seed=1)
    net = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    layer = PermutationLayer.paper(data.labels, CLASSES, ids=data.ids, correct_after=0.3, epochs=12)
    for epoch in range(12):
        for batch in stream:
            optimizer.zero_grad()
            layer(net(batch.x), batch.index).backward()
            optimizer.step()
            layer.step()
        stream.balance(layer.corrected_labels())
        assert stream.epoch == epoch + 1
    corrected = layer.corrected_labels()
    assert (corrected == true).float().mean() > 0.95 > (data.labels == true).float().mean()
    # The next epoch draws the classes of the corrected labels equally often.
    stream.draws = 1200
    drawn = torch.cat([batch.index for batch in stream])
    fractions = torch.bincount(corrected[drawn], minlength=CLASSES)[list(LEARNABLE_CLASSES)] / len(drawn)
    assert (fractions - 1 / 3).abs().max() < 0.06
    plain = default_views(data.inputs)["plain"](test.inputs.batch(torch.arange(len(test))), torch.arange(len(test)))
    assert (net(plain).argmax(1) == test.labels).float().mean() == 1
