"""The public names and where each is made; `__init__.py` reads this file. Adding a name is adding a line."""

from fluoroscope.audit.run import audit as audit
from fluoroscope.audit.updates.run import audit_updates as audit_updates
from fluoroscope.defences.chain import chain as chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise as ClipAndNoise
from fluoroscope.defences.dp_sgd import DpSgd as DpSgd
from fluoroscope.defences.fed_bn import FedBn as FedBn
from fluoroscope.defences.guard.inspect import inspect as inspect
from fluoroscope.defences.hidden_layers import HiddenLayers as HiddenLayers
from fluoroscope.defences.percentile_gaussian import PercentileGaussian as PercentileGaussian
from fluoroscope.defences.pruning import Pruning as Pruning
from fluoroscope.defences.quantisation import Quantisation as Quantisation
from fluoroscope.errors import BadInput as BadInput
from fluoroscope.errors import FluoroscopeError as FluoroscopeError
from fluoroscope.errors import Misconfigured as Misconfigured
from fluoroscope.errors import Unsupported as Unsupported
from fluoroscope.federation.client_round import client_round as client_round
from fluoroscope.findings.reading import read_findings as read_findings
from fluoroscope.rng import generator as generator
from fluoroscope.scenarios.curious_server import attack as attack
from fluoroscope.scenarios.curious_server import score as score
from fluoroscope.site.meter import meter as meter
from fluoroscope.types.images import LabelledImages as LabelledImages
from fluoroscope.types.images import PrivateBatch as PrivateBatch
from fluoroscope.types.losses import BinaryCrossEntropy as BinaryCrossEntropy
from fluoroscope.types.losses import CrossEntropy as CrossEntropy
from fluoroscope.types.losses import CustomLoss as CustomLoss
from fluoroscope.types.network import Network as Network
from fluoroscope.types.optimisers import Adam as Adam
from fluoroscope.types.optimisers import AdamW as AdamW
from fluoroscope.types.optimisers import OneGradient as OneGradient
from fluoroscope.types.optimisers import Sgd as Sgd
from fluoroscope.types.records import UpdateRecord as UpdateRecord
from fluoroscope.types.threat_model import Reconstruction as Reconstruction
from fluoroscope.types.training import LocalTraining as LocalTraining
from fluoroscope.types.training import Normalisation as Normalisation

__version__: str
