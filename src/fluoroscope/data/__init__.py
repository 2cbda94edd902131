"""Images in [0, 1] with labels, patients and a licence; and who holds which of them.

Importing this package enters every source and partition into its registry.
"""

from fluoroscope.data import dicom, image_folder, medmnist, nifti, partition, phantoms
from fluoroscope.data.sources import SOURCES, Request, Source, load

__all__ = [
    "SOURCES",
    "Request",
    "Source",
    "dicom",
    "image_folder",
    "load",
    "medmnist",
    "nifti",
    "partition",
    "phantoms",
]
