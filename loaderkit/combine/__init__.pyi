from .balanced import balance as balance
from .interleaved import interleave as interleave
from .mixed import mix as mix
