from . import grain as grain
from . import jax as jax
from . import keras as keras
from . import prometheus as prometheus
from . import ray as ray
from . import tf as tf
from . import torch as torch
from . import tqdm as tqdm
