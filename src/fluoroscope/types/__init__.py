"""The nouns of the house: frozen, and built from torch and the standard library only."""

from fluoroscope.types.images import ClientSplit, ImageSet, LabelledImages, Partition, PrivateBatch, Skipped
from fluoroscope.types.losses import BinaryCrossEntropy, CrossEntropy, CustomLoss, Loss
from fluoroscope.types.network import LiveNetwork, Network, blueprint
from fluoroscope.types.optimisers import Adam, AdamW, LocalOptimiser, OneGradient, Sgd
from fluoroscope.types.records import NO_CLAIM, PrivacyClaim, Relation, RoundView, State, UpdateRecord, split_state
from fluoroscope.types.threat_model import Capability, Knowledge, Observation, Reconstruction, StackedDefences
from fluoroscope.types.training import LocalTraining, Normalisation

__all__ = [
    "NO_CLAIM",
    "Adam",
    "AdamW",
    "BinaryCrossEntropy",
    "Capability",
    "ClientSplit",
    "CrossEntropy",
    "CustomLoss",
    "ImageSet",
    "Knowledge",
    "LabelledImages",
    "LiveNetwork",
    "LocalOptimiser",
    "LocalTraining",
    "Loss",
    "Network",
    "Normalisation",
    "Observation",
    "OneGradient",
    "Partition",
    "PrivacyClaim",
    "PrivateBatch",
    "Reconstruction",
    "Relation",
    "RoundView",
    "Sgd",
    "Skipped",
    "StackedDefences",
    "State",
    "UpdateRecord",
    "blueprint",
    "split_state",
]
