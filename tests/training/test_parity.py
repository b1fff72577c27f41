"""The trainer with the settings of the paper, against a straightforward implementation of its procedure.

Batch mean, η times the gradient of that mean, simultaneous steps of network and α, warm-up in steps, a step schedule
for the network alone, α at a constant rate.
"""

import pytest
import torch
from torch import Tensor, nn

from permll.data import LabeledData, Stream, Vectors, load
from permll.data.transforms import default_views
from permll.methods import find_method
from permll.training.trainer import Trainer
from tests.helpers.toy_training import do_nothing, small_net

ETA, M, B, EPOCHS = 300.0, 0.35, 64, 2  # a large η, so that α moves in 20 steps


def digits() -> LabeledData:
    data = load("digits").take(range(640))  # ten full batches: for a short one the paper's code enlarges η / B
    values = data.inputs.batch(torch.arange(len(data))).flatten(1).float() / 255
    return data.with_inputs(Vectors(values))


def train_by_hand(data: LabeledData, net: nn.Module, on: str, warm_up: int) -> tuple[Tensor, Tensor]:
    """Train as the paper says; return α before and after."""
    c = data.num_classes
    given = nn.functional.one_hot(data.labels, c).float()
    alpha = (given * torch.log(torch.tensor(M * (c - 1) / (1 - M)))).requires_grad_()
    start = alpha.detach().clone()
    network = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(network, [1], gamma=0.1)
    layer = torch.optim.SGD([alpha], lr=ETA)
    swaps = torch.stack([torch.stack([_swap(y, k, c) for k in range(c)]) for y in range(c)])  # (c, c, c, c)
    stream = Stream(data, B, views={"weak": default_views(data.inputs)["weak"]}, name="0/batch")
    step = 0
    for _ in range(EPOCHS):
        net.train()
        for batch in stream:
            network.zero_grad()
            layer.zero_grad()
            p = net(batch.x).softmax(-1)
            mixed = torch.einsum("bk,bkij->bij", alpha[batch.index].softmax(-1), swaps[batch.labels])
            if step < warm_up:
                loss = -p[torch.arange(B), batch.labels].log()
            elif on == "prediction":
                loss = -torch.einsum("bij,bj->bi", mixed, p)[torch.arange(B), batch.labels].log()
            else:
                loss = -(torch.einsum("bij,bj->bi", mixed, given[batch.index]) * p.log()).sum(1)
            loss.mean().backward()
            network.step()
            layer.step()
            step += 1
        schedule.step()
    return start, alpha.detach()


def _swap(y: int, k: int, c: int) -> Tensor:
    order = list(range(c))
    order[y], order[k] = k, y
    return torch.eye(c)[order]


@pytest.mark.parametrize(("warm_up", "steps"), [(0, 0), (7, 7), (0.5, 10)])  # half of two epochs is the first
@pytest.mark.parametrize("on", ["prediction", "label"])
def test_trainer_matches_the_procedure_of_the_paper(on: str, warm_up: float, steps: int) -> None:
    from lightning_fabric import Fabric

    data = digits()
    slow, fast = (small_net(64, 10) for _ in range(2))
    for net in (slow, fast):
        net[3] = nn.Identity()  # dropout draws from the global generator
    start, alpha = train_by_hand(data, slow, on, steps)
    method = find_method("permll").build(init=M, lr=ETA / B, on=on, warm_up=warm_up)
    method.networks["net"] = fast
    trainer = Trainer(
        Fabric(accelerator="cpu", devices=1),
        method,
        data,
        default_views(data.inputs),
        optimizer={"name": "sgd", "lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4},
        schedule={"milestones": (1,)},
        epochs=EPOCHS,
        batch_size=B,
    )
    torch.testing.assert_close(method.layer.alpha, start)
    trainer.run(do_nothing, do_nothing)
    assert trainer.step == 20
    torch.testing.assert_close(method.layer.alpha, alpha, rtol=0, atol=1e-5)
    for one, other in zip(slow.state_dict().values(), fast.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    moved = (alpha - start).abs().amax(1)
    assert (moved > 0.1).float().mean() > 0.9, "most rows of α have moved"
