"""Tiny models of transformers, and digits with 40 % wrong labels. Also a job for torchrun, see ``main``."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tests.helpers.processes import leave_process_group
from tests.helpers.tiny_encoders import import_torchvision

if find_spec("torchvision") is not None:
    import_torchvision()  # which transformers imports

from transformers import (
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    BertConfig,
    TrainingArguments,
    ViTConfig,
)

from permll import PermutationLayer
from permll.integrations.huggingface import PermLLTrainer

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Digits(NamedTuple):
    """Digits as items for ViT, and their true classes."""

    train: list[dict[str, Any]]
    test: list[dict[str, Any]]
    truth: NDArray[np.int64]
    given: NDArray[np.int64]


def digits(rows: int) -> Digits:
    """Return training digits with 40 % wrong labels, and test digits."""
    x, y = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    order = generator.permutation(len(x))
    images, truth = torch.tensor(x[order], dtype=torch.float32).view(-1, 1, 8, 8) / 16, y[order]
    is_wrong = generator.random(rows) < 0.4
    given = np.where(is_wrong, (truth[:rows] + generator.integers(1, 10, rows)) % 10, truth[:rows])
    labels = np.concatenate([given, truth[rows:]]).tolist()
    items = [{"pixel_values": image, "label": label} for image, label in zip(images, labels, strict=True)]
    return Digits(items[:rows], items[rows:], truth[:rows], given)


def image_model(hidden: int, layers: int = 1) -> nn.Module:
    """Return a small ViT for digits."""
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": 2 * hidden}
    config = ViTConfig(
        image_size=8, patch_size=4, num_channels=1, num_labels=10, num_attention_heads=4, **sizes, **NO_DROPOUT
    )
    torch.manual_seed(0)
    return AutoModelForImageClassification.from_config(config)


def text_model(num_labels: int = 2, **settings: Any) -> nn.Module:
    """Return a small BERT with 20 words."""
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "hidden_size": 16}
    config = BertConfig(vocab_size=20, max_position_embeddings=8, num_labels=num_labels, **sizes, **NO_DROPOUT)
    config.update(settings)
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(config)


def arguments(folder: Path, **settings: Any) -> TrainingArguments:
    """Return arguments for a silent training on the CPU."""
    quiet = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "dataloader_pin_memory": False}
    plain = {"use_cpu": True, "save_strategy": "no", "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "seed": 0}
    return TrainingArguments(str(folder), **{**quiet, **plain, **settings})


def paper_layer(data: Digits) -> PermutationLayer:
    """Return a layer that changes in every step."""
    return PermutationLayer.paper(data.given, 10, init=0.5, lr=0.1)


def state(trainer: PermLLTrainer) -> dict[str, Tensor]:
    """Return the weights of the model and the state of the layer."""
    weights = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
    return weights | {f"layer.{name}": value for name, value in trainer.layer.state_dict().items()}


def train_in_order(
    folder: Path, batch: int, accumulate: int = 1, rows: int = 90, *, takes_count: bool = True
) -> PermLLTrainer:
    """Train on digits in their order with SGD; some rows remain for a smaller last step.

    ``takes_count`` says whether the model divides its own loss by the number of samples of a step.
    """
    data = digits(rows)
    settings = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulate, "optim": "sgd"}
    settings |= {"train_sampling_strategy": "sequential", "num_train_epochs": 2, "learning_rate": 0.05}
    layer = paper_layer(data).double()
    model = image_model(16)
    model.accepts_loss_kwargs = takes_count
    trainer = PermLLTrainer(model, arguments(folder, **settings), train_dataset=data.train, layer=layer)
    trainer.train()
    return trainer


def main(out: Path) -> None:
    """Train as a process of torchrun; each writes its state, and the first one the findings."""
    trainer = train_in_order(out / "run", batch=8, rows=96)  # else Accelerate repeats samples in the last batch
    trainer.findings(out=out / "findings")
    rank = trainer.args.process_index
    tensors = {"logits": trainer.train_logits(), **state(trainer)}
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, out / f"{rank}.safetensors")
    leave_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
