"""The names of the room, imported on first use (`quadric._io.attach`)."""

from .batches import ActivationBatch as ActivationBatch
from .batches import ActivationStream as ActivationStream
from .batches import BatchSize as BatchSize
from .cache import ActivationCache as ActivationCache
from .cache import CachedStream as CachedStream
from .harvesting import harvest_to_folder as harvest_to_folder
from .hook_points import HookPoint as HookPoint
from .hook_points import parse_hook_point as parse_hook_point
from .hook_points import parse_hook_points as parse_hook_points
from .live_stream import LiveStream as LiveStream
from .models import LanguageModel as LanguageModel
from .models import find_model as find_model
from .models import load_model as load_model
from .provenance import StreamProvenance as StreamProvenance
from .provenance import describe as describe
from .settings import ActivationConfig as ActivationConfig
from .settings import HarvestConfig as HarvestConfig
from .settings import TokenRules as TokenRules
from .token_rules import TokenCounts as TokenCounts
