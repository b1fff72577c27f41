"""Losses, updates and estimators of the methods as pure functions, in one flat namespace.

Losses return one value per sample. Functions have no state and draw no random numbers.

Examples:
    >>> import torch
    >>> from permll import functional as PF
    >>> PF.gce(torch.zeros(1, 2), torch.tensor([0]), q=1.0)
    tensor([0.5000])
"""

import inspect

from permll.functional.annotated_errors import find_annotated_errors as find_annotated_errors
from permll.functional.conservative import class_confusion as class_confusion
from permll.functional.conservative import conservative_confidence as conservative_confidence
from permll.functional.contrastive import nt_xent_loss as nt_xent_loss
from permll.functional.label_errors import LabelErrors as LabelErrors
from permll.functional.label_errors import RateInterval as RateInterval
from permll.functional.label_errors import disagreement_weight as disagreement_weight
from permll.functional.label_errors import find_errors as find_errors
from permll.functional.label_refurbishment import class_prior_divergence as class_prior_divergence
from permll.functional.label_refurbishment import kl_divergence as kl_divergence
from permll.functional.label_refurbishment import pencil_compatibility_loss as pencil_compatibility_loss
from permll.functional.label_refurbishment import pencil_loss as pencil_loss
from permll.functional.label_refurbishment import softmax_entropy as softmax_entropy
from permll.functional.meta_learning import batch_nearest_neighbors as batch_nearest_neighbors
from permll.functional.meta_learning import consistency_loss as consistency_loss
from permll.functional.meta_learning import differentiable_sgd_step as differentiable_sgd_step
from permll.functional.meta_learning import synthetic_noisy_labels as synthetic_noisy_labels
from permll.functional.mixture import BetaMixture as BetaMixture
from permll.functional.mixture import GaussianMixture as GaussianMixture
from permll.functional.mixture import fit_beta_mixture as fit_beta_mixture
from permll.functional.mixture import fit_gaussian_mixture as fit_gaussian_mixture
from permll.functional.mixture import loss_percentile_range as loss_percentile_range
from permll.functional.mixture import min_max_scale as min_max_scale
from permll.functional.mixture import mislabeled_posterior as mislabeled_posterior
from permll.functional.mixture import scale_losses as scale_losses
from permll.functional.mixup import bootstrapped_targets as bootstrapped_targets
from permll.functional.mixup import guided_mixup_weight as guided_mixup_weight
from permll.functional.mixup import mixup_blend as mixup_blend
from permll.functional.mixup import mixup_cross_entropy as mixup_cross_entropy
from permll.functional.morph import is_memorized as is_memorized
from permll.functional.morph import noise_rate_from_loss_areas as noise_rate_from_loss_areas
from permll.functional.morph import update_prediction_history as update_prediction_history
from permll.functional.multiple_annotators import Answers as Answers
from permll.functional.multiple_annotators import Consensus as Consensus
from permll.functional.multiple_annotators import dawid_skene as dawid_skene
from permll.functional.near_duplicates import near_duplicate_pairs as near_duplicate_pairs
from permll.functional.negative_learning import complementary_labels as complementary_labels
from permll.functional.negative_learning import log_complement as log_complement
from permll.functional.negative_learning import negative_learning_loss as negative_learning_loss
from permll.functional.negative_learning import negative_learning_plus_loss as negative_learning_plus_loss
from permll.functional.negative_learning import only_top_above_chance as only_top_above_chance
from permll.functional.negative_learning import positive_learning_plus_loss as positive_learning_plus_loss
from permll.functional.neighbors import add_votes as add_votes
from permll.functional.neighbors import neighbor_votes as neighbor_votes
from permll.functional.noise_adaptation import conditional_transition_columns as conditional_transition_columns
from permll.functional.noise_adaptation import log_transition_columns as log_transition_columns
from permll.functional.noise_adaptation import noise_layer_loss as noise_layer_loss
from permll.functional.noise_adaptation import noise_layer_posterior as noise_layer_posterior
from permll.functional.noise_adaptation import project_to_stochastic as project_to_stochastic
from permll.functional.noise_adaptation import relationship_graph as relationship_graph
from permll.functional.noise_adaptation import top_k_per_row as top_k_per_row
from permll.functional.noise_rate import JointFit as JointFit
from permll.functional.noise_rate import WarmFit as WarmFit
from permll.functional.noise_rate import conservative_noise_rate as conservative_noise_rate
from permll.functional.noise_rate import estimate_noise_rate as estimate_noise_rate
from permll.functional.noise_rate import fit_joint as fit_joint
from permll.functional.noise_rate import initial_transition as initial_transition
from permll.functional.noise_rate import joint_from_label_probs as joint_from_label_probs
from permll.functional.noise_rate import noise_rate_from_joint as noise_rate_from_joint
from permll.functional.noise_rate import noise_rate_from_mixture as noise_rate_from_mixture
from permll.functional.noise_rate import smoothed_transition as smoothed_transition
from permll.functional.noise_rate import transition_from_joint as transition_from_joint
from permll.functional.noise_rate import warm_fit as warm_fit
from permll.functional.outliers import outlier_scores as outlier_scores
from permll.functional.posterior import label_log_odds as label_log_odds
from permll.functional.posterior import label_posterior as label_posterior
from permll.functional.posterior import shift_for_rate as shift_for_rate
from permll.functional.prediction_memory import elr_regularizer as elr_regularizer
from permll.functional.prediction_memory import elr_reweighted_labels as elr_reweighted_labels
from permll.functional.prediction_memory import elr_target as elr_target
from permll.functional.prediction_memory import normalize_rows as normalize_rows
from permll.functional.prediction_memory import sop_corrected_labels as sop_corrected_labels
from permll.functional.prediction_memory import sop_cross_entropy as sop_cross_entropy
from permll.functional.prediction_memory import sop_noise as sop_noise
from permll.functional.prediction_memory import sop_squared_error as sop_squared_error
from permll.functional.review_calibration import Calibration as Calibration
from permll.functional.review_calibration import Remaining as Remaining
from permll.functional.review_calibration import calibrate as calibrate
from permll.functional.robust_losses import gce as gce
from permll.functional.robust_losses import hard_bootstrap_loss as hard_bootstrap_loss
from permll.functional.robust_losses import soft_bootstrap_loss as soft_bootstrap_loss
from permll.functional.robust_losses import symmetric_cross_entropy as symmetric_cross_entropy
from permll.functional.robust_losses import truncated_gce as truncated_gce
from permll.functional.robust_losses import truncated_gce_mask as truncated_gce_mask
from permll.functional.schedules import linear_rampup as linear_rampup
from permll.functional.schedules import sigmoid_rampup as sigmoid_rampup
from permll.functional.schedules import small_loss_drop_rate as small_loss_drop_rate
from permll.functional.selection import disagreement_mask as disagreement_mask
from permll.functional.selection import jocor_loss as jocor_loss
from permll.functional.selection import js_divergence_cutoff as js_divergence_cutoff
from permll.functional.selection import label_js_divergence as label_js_divergence
from permll.functional.selection import selection_weights as selection_weights
from permll.functional.selection import small_loss_mask as small_loss_mask
from permll.functional.selection import uniform_selection_mask as uniform_selection_mask
from permll.functional.semi_supervised import co_guess_labels as co_guess_labels
from permll.functional.semi_supervised import co_refine_labels as co_refine_labels
from permll.functional.semi_supervised import dividemix_unlabeled_weight as dividemix_unlabeled_weight
from permll.functional.semi_supervised import gmm_clean_probability as gmm_clean_probability
from permll.functional.semi_supervised import sharpen as sharpen
from permll.functional.semi_supervised import softmax_mse_loss as softmax_mse_loss
from permll.functional.semi_supervised import trusted_label_mask as trusted_label_mask
from permll.functional.transition import anchor_indices as anchor_indices
from permll.functional.transition import anchor_transition as anchor_transition
from permll.functional.transition import backward_correction_loss as backward_correction_loss
from permll.functional.transition import clean_posterior as clean_posterior
from permll.functional.transition import confusion_transition as confusion_transition
from permll.functional.transition import dual_transition as dual_transition
from permll.functional.transition import forward_correction_loss as forward_correction_loss
from permll.functional.transition import gold_transition as gold_transition
from permll.functional.transition import importance_weights as importance_weights
from permll.functional.transition import inverse_transition as inverse_transition
from permll.functional.transition_fit import fit_power as fit_power
from permll.functional.transition_fit import fit_transition as fit_transition

__all__ = sorted(name for name, value in globals().items() if name[0] != "_" and not inspect.ismodule(value))
