"""The public names and where each is made; `__init__.py` reads this file. Adding a name is adding a line."""

from fluoroscope.defences.central_dp import CentralDp as CentralDp
from fluoroscope.defences.clip_and_noise import ClipAndNoise as ClipAndNoise
from fluoroscope.defences.dp_sgd import DpSgd as DpSgd
from fluoroscope.defences.fed_bn import FedBn as FedBn
from fluoroscope.defences.guard import inspect as inspect
from fluoroscope.defences.hidden_layers import HiddenLayers as HiddenLayers
from fluoroscope.defences.metric_privacy import MetricPrivacy as MetricPrivacy
from fluoroscope.defences.percentile_gaussian import PercentileGaussian as PercentileGaussian
from fluoroscope.defences.pruning import Pruning as Pruning
from fluoroscope.defences.quantisation import Quantisation as Quantisation
from fluoroscope.errors import BadInput as BadInput
from fluoroscope.errors import Misconfigured as Misconfigured
from fluoroscope.errors import Refused as Refused
from fluoroscope.errors import Unsupported as Unsupported
from fluoroscope.scores.rdlv import rdlv as rdlv
from fluoroscope.scores.similarity import psnr as psnr
from fluoroscope.scores.similarity import ssim as ssim
from fluoroscope.types import Adam as Adam
from fluoroscope.types import LocalTraining as LocalTraining
from fluoroscope.types import PrivacyClaim as PrivacyClaim
from fluoroscope.types import PrivateBatch as PrivateBatch
from fluoroscope.types import Sgd as Sgd
from fluoroscope.types import UpdateRecord as UpdateRecord

__version__: str
