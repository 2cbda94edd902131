"""Who holds which image: splits by patient, stratified, from a seed."""

from fluoroscope.data.partition import counts, dirichlet, iid, p1, p2, p3, sites
from fluoroscope.data.partition.counts import CountsSplit
from fluoroscope.data.partition.dirichlet import DirichletSplit
from fluoroscope.data.partition.iid import IidSplit
from fluoroscope.data.partition.p1 import P1Split
from fluoroscope.data.partition.p2 import P2Split
from fluoroscope.data.partition.p3 import P3Homogeneous, P3Table3, P3Table8
from fluoroscope.data.partition.registry import PARTITIONS, Partitioner
from fluoroscope.data.partition.sites import SitesSplit
from fluoroscope.data.partition.split_table import split_table

__all__ = [
    "PARTITIONS",
    "CountsSplit",
    "DirichletSplit",
    "IidSplit",
    "P1Split",
    "P2Split",
    "P3Homogeneous",
    "P3Table3",
    "P3Table8",
    "Partitioner",
    "SitesSplit",
    "counts",
    "dirichlet",
    "iid",
    "p1",
    "p2",
    "p3",
    "sites",
    "split_table",
]
