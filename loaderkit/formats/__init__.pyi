from .format import Format as Format
from .registry import register as register
