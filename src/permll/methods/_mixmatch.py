"""What DivideMix and UniCon share: two networks that learn in turn, each from rows that were divided before."""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from permll.data import samplers
from permll.data.streams import Batch
from permll.data.transforms.counter_rng import fold_in
from permll.data.transforms.mixing import mixup as draw_mix
from permll.functional.mixup import bootstrapped_targets
from permll.functional.refurbish import class_prior_divergence, softmax_entropy
from permll.functional.schedules import linear_rampup
from permll.functional.semi import co_guess_labels, co_refine_labels, softmax_mse_loss
from permll.methods._base import FitInfo, Method, PredictLogits, StreamSpec, TrainPass, divide_epochs, in_epochs
from permll.methods._eval_mode import evaluating

Guess = Literal["evaluating", "training"]
Blends = Literal["all", "labeled"]


class MixMatch(Method):
    """A warm-up on all labels, then epochs in which each network learns from labelled and from unlabelled rows.

    Which rows keep their labels, ``divide`` says, and how far each label is believed, ``right``. A step of a network
    takes half a batch of labelled rows and some unlabelled ones, two views each. The target of a labelled row is
    w e_y + (1 - w) p, p being the mean over its views; that of an unlabelled one is the mean prediction of both
    networks. Both are sharpened. Views and targets of all are blended with each other at random, each remaining nearer
    to itself. The loss is the cross-entropy of blends that are labelled, λ_u times the squared error of the others, and
    KL(1/c || mean prediction).

    Args:
        warm_up: epochs of cross-entropy on the given labels, one at least; below 1 a share of all.
        penalty: weight of the confidence penalty Σ p log p in the warm-up.
        temperature: T of the targets.
        mixup: of the Beta distribution that blends are drawn from.
        ramp: epochs in which λ_u rises from 0, below 1 as a share of all.
        guess: mode of the network in training while it guesses targets.
        blends: which blends are passed: all, or those of labelled rows.
        draws: rows that are drawn for each turn of a network, evenly over the given labels; default all.
    """

    network_names = ("net0", "net1")
    guess_views: ClassVar[tuple[str, str]] = ("weak", "weak:2")
    blended_views: ClassVar[tuple[str, str]] = ("weak", "weak:2")

    def __init__(
        self,
        warm_up: float,
        penalty: float,
        temperature: float,
        mixup: float,
        ramp: float,
        guess: Guess,
        blends: Blends,
        draws: int | None,
    ) -> None:
        super().__init__()
        if temperature <= 0 or mixup <= 0:
            raise ValueError(f"temperature and mixup must be positive, got {temperature} and {mixup}.")
        if penalty < 0 or ramp < 0:
            raise ValueError(f"penalty and ramp must be 0 or more, got {penalty} and {ramp}.")
        if draws is not None and draws < 2:
            raise ValueError(f"draws must be two or more, got {draws}.")
        self.warm_up, self.penalty, self.temperature, self.mixup = warm_up, penalty, temperature, mixup
        self.ramp, self.guess, self.blends, self.draws = ramp, guess, blends, draws
        # Whose turn it is; its epoch; how many labelled rows this turn has, and how many of them were visited.
        self.register_buffer("turn", torch.zeros(4, dtype=torch.int64))
        self.turn: Tensor

    # --- What a method of this kind says of its own

    def divide(self, number: int, predict_logits: PredictLogits) -> tuple[Tensor, Tensor]:
        """Return the rows that are labelled and those that are not, for the turn of network ``number``."""
        raise NotImplementedError

    def right(self, index: Tensor) -> Tensor:
        """Return w (B,), how far the labels of these rows are believed in this turn."""
        raise NotImplementedError

    def trust(self) -> Tensor:
        """Return how far each label takes part in the targets, (N,): w, and 0 for those that are forgotten."""
        raise NotImplementedError

    def unlabeled_factor(self) -> float:
        """Return the size of an unlabelled batch, in batches of the recipe."""
        return 0.5

    def weight(self) -> float:
        """Return λ_u after its rise."""
        raise NotImplementedError

    # --- Sweeps

    def on_fit_start(self, info: FitInfo) -> None:
        """Find when the warm-up ends."""
        super().on_fit_start(info)
        self.warm_up_epochs = divide_epochs(info.epochs, self.warm_up)[0]
        self.ramp_epochs = in_epochs(self.ramp, info.epochs)

    def train_pass(self, epoch: int, number: int, predict_logits: PredictLogits) -> TrainPass | None:
        """Return a sweep for each network, over all rows or over those that are divided for it."""
        if number > 1:
            return None
        own = f"net{number}"
        if epoch < self.warm_up_epochs:
            self.turn.copy_(torch.tensor([number, epoch, 0, 0]))
            # Twice as many rows as later, in batches twice as large.
            draw = StreamSpec() if self.draws is None else StreamSpec(order="balanced", draws=2 * self.draws)
            return TrainPass({"batch": draw}, networks=(own,))
        labeled, unlabeled = (rows.cpu() for rows in self.divide(number, predict_logits))
        self.turn.copy_(torch.tensor([number, epoch, len(labeled), 0]))
        views = tuple(dict.fromkeys((*self.guess_views, *self.blended_views)))
        streams = {"labeled": StreamSpec(views, rows=labeled, batch_factor=0.5)}
        if len(unlabeled) > 1:  # batch norms cannot train on one row
            streams["unlabeled"] = StreamSpec(views, rows=unlabeled, batch_factor=self.unlabeled_factor())
        return TrainPass(streams, "learn", (own, *self.moving()))

    def moving(self) -> tuple[str, ...]:
        """Return what moves beside the network in turn."""
        return ()

    def drawn_rows(self) -> Tensor:
        """Return the rows (n,) to divide: all, or a fresh draw that is even over the given labels."""
        assert self.info is not None
        every = torch.arange(self.info.num_samples)
        if self.draws is None or self.draws >= len(every):
            return every
        seed = int(torch.randint(2**31, ()))
        return samplers.balanced_sample(every, self.info.labels.cpu(), self.draws, seed, 0).sort().values

    def look(self, predict_logits: PredictLogits, name: str, rows: Tensor) -> Tensor:
        """Return what a network says of these rows, (n, c)."""
        assert self.info is not None
        return predict_logits(name, rows=rows) if len(rows) < self.info.num_samples else predict_logits(name)

    # --- Losses

    def loss(self, batch: Batch) -> Tensor:
        """Return -log p_y + penalty Σ p log p, (B,), of the network in turn."""
        logits = self.networks[f"net{int(self.turn[0])}"](batch.x)
        return nn.functional.cross_entropy(logits, batch.labels, reduction="none") - self.penalty * softmax_entropy(
            logits
        )

    def learn(self, labeled: Batch, unlabeled: Batch | None = None) -> Tensor:
        """Return the loss of a step with MixMatch, a number."""
        own, peer = self.in_turn()
        batches = [labeled] if unlabeled is None else [labeled, unlabeled]
        targets = self._targets(own, peer, labeled, unlabeled)
        views = torch.cat([batch.views[view] for batch in batches for view in self.blended_views])
        keys = torch.cat([fold_in(batch.keys, number) for batch in batches for number in range(2)])
        mix = draw_mix(keys, self.mixup, keep_first=True)
        certain = 2 * len(labeled.index)
        passed = len(keys) if self.blends == "all" else certain
        logits = own(mix(views)[:passed]).float()
        blended = mix(targets)[:passed]
        uniform = logits.new_full((logits.shape[1],), 1 / logits.shape[1])
        loss = nn.functional.cross_entropy(logits[:certain], blended[:certain])
        loss = loss + class_prior_divergence(logits, uniform)
        weight = self.ramped_weight()
        if passed > certain and weight > 0:
            loss = loss + weight * softmax_mse_loss(logits[certain:], blended[certain:]).mean()
        self.turn[3] += len(labeled.index)
        return loss

    def in_turn(self) -> tuple[nn.Module, nn.Module]:
        """Return the network in training, and its peer."""
        number = int(self.turn[0])
        return self.networks[f"net{number}"], self.networks[f"net{1 - number}"]

    def ramped_weight(self) -> float:
        """Return λ_u at this step."""
        _, epoch, rows, visited = self.turn.tolist()
        passed = epoch - self.warm_up_epochs + visited / max(rows, 1)
        return self.weight() * (linear_rampup(passed / self.ramp_epochs) if self.ramp_epochs else 1.0)

    @torch.no_grad()
    def _targets(self, own: nn.Module, peer: nn.Module, labeled: Batch, unlabeled: Batch | None) -> Tensor:
        """Return the targets of labelled and unlabelled rows, those of each batch twice, for its two views."""
        batches = [labeled] if unlabeled is None else [labeled, unlabeled]
        of_labeled, *of_unlabeled = self._said(own, batches)
        refined = co_refine_labels(labeled.labels, of_labeled, self.right(labeled.index), self.temperature)
        if unlabeled is None:
            return refined.repeat(2, 1)
        said = torch.cat([*of_unlabeled, *self._said(peer, [unlabeled])])
        return torch.cat([refined.repeat(2, 1), co_guess_labels(said, self.temperature).repeat(2, 1)])

    def _said(self, network: nn.Module, batches: list[Batch]) -> list[Tensor]:
        """Return for each batch the logits (2, B, c) of the two views that targets are guessed from."""
        views = [torch.cat([batch.views[view] for view in self.guess_views]) for batch in batches]
        if self.guess == "training" and network is self.in_turn()[0]:
            logits = [network(both) for both in views]
        else:
            with evaluating(network):
                logits = list(network(torch.cat(views)).split([len(both) for both in views]))
        return [both.float().unflatten(0, (2, -1)) for both in logits]

    # --- Labels

    def corrected_labels(self, predict_logits: PredictLogits) -> Tensor:
        """Return w e_y + (1 - w) p (N, c), p being the mean prediction of both networks."""
        assert self.info is not None
        right = self.trust().cpu()
        return bootstrapped_targets(self.info.labels.cpu(), self.predict_rows(predict_logits), 1 - right)
