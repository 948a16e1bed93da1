"""torch's DataLoader with transforms of torchvision: its peer, with another library to be installed."""

from benchmarks.peers.torch import open_loader

__all__ = ["open_loader"]
