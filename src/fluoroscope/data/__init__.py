"""Images in [0, 1] with labels, patients and a licence; and who holds which of them.

Importing this package enters every source and partition into its registry.
"""

from fluoroscope.data import dicom, image_folder, medmnist, nifti, partition, phantoms
from fluoroscope.data.sites import Site, load_sites
from fluoroscope.data.sources import SOURCES, Request, Source, load

__all__ = [
    "SOURCES",
    "Request",
    "Site",
    "Source",
    "dicom",
    "image_folder",
    "load",
    "load_sites",
    "medmnist",
    "nifti",
    "partition",
    "phantoms",
]
