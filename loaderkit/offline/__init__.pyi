from loaderkit.formats.map_shards import map_shards as map_shards
from loaderkit.sources.packed.epoch_plans import EpochPlans as EpochPlans
from loaderkit.sources.packed.pack_plan import PackPlan as PackPlan

from .array_file import read_array as read_array
from .array_file import read_labels as read_labels
from .blocking import block_list as block_list
from .column_counts import column_stats as column_stats
from .measuring import filtered as filtered
from .measuring import measure as measure
