"""The program's models and their pieces as torch modules, on Lacuna's operators.

    screen = lacuna.Screen.open("screen")
    model = lacuna.nn.HeteroGin(lacuna.nn.GeneGraph.of(screen), labels=1, width=64, merge="mean")
    predicted = model(removed, ptr)                  # [B, L], standardised labels

A :class:`GeneGraph` is a :class:`lacuna.Graph`: ``lacuna.aggregate(model.graph, ...)`` works.
Parameters have the program's names and shapes, so a checkpoint of `lacuna train` loads
(:meth:`lacuna.Run.model`), and weights from here go back (:func:`save_checkpoint`). A Linear's weight stands as
[in, out]; weights of several edge types are one tensor with the type in front. Modules compute in the dtype of their
parameters; ``torch.autocast`` gives bf16.
"""

from .checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from .convolutions import GCN, GIN, SAGE
from .dango import Dango
from .factors import Factors
from .gene_graph import GeneGraph
from .gene_mlp import GeneMlp
from .heads import GlobalHead, LocalHead, PairHead, Pool, ProductHead
from .hetero_gin import HeteroGin, Metabolism
from .hidden_genes import HiddenGenes
from .layers import Dense, GraphDense, GraphMlp, Norm, attend
from .merges import AttentionMerge, MeanMerge, PairwiseMerge, SumMerge, make_merge
from .model import Model, gene_sets, make_model
from .wild_type import WildType

__all__ = [
    "AttentionMerge",
    "Checkpoint",
    "Dango",
    "Dense",
    "Factors",
    "GCN",
    "GIN",
    "GeneGraph",
    "GeneMlp",
    "GlobalHead",
    "GraphDense",
    "GraphMlp",
    "HeteroGin",
    "HiddenGenes",
    "LocalHead",
    "MeanMerge",
    "Metabolism",
    "Model",
    "Norm",
    "PairHead",
    "PairwiseMerge",
    "Pool",
    "ProductHead",
    "SAGE",
    "SumMerge",
    "WildType",
    "attend",
    "gene_sets",
    "load_checkpoint",
    "make_merge",
    "make_model",
    "save_checkpoint",
]
