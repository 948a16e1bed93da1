from .bucketized import Bucketized as Bucketized
from .crossed import Crossed as Crossed
from .hashed import Hashed as Hashed
from .identity import Identity as Identity
from .numeric import Numeric as Numeric
from .one_hot import MultiHot as MultiHot
from .one_hot import OneHot as OneHot
from .vocabulary import Vocabulary as Vocabulary
