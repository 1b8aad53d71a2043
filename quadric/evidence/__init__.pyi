"""The names of the room, imported on first use (`quadric._io.lazy`)."""

from .calibration import Calibration as Calibration
from .collecting import Job as Job
from .collecting import collect as collect
from .collecting import collect_evidence as collect_evidence
from .collecting import collect_together as collect_together
from .patterns.finding import find_patterns as find_patterns
from .patterns.record import DictionaryPatterns as DictionaryPatterns
from .patterns.record import PatternTest as PatternTest
from .patterns.record import patterns_csv as patterns_csv
from .record import Contexts as Contexts
from .record import Evidence as Evidence
from .record import EvidenceSettings as EvidenceSettings
from .record import FiringStatistics as FiringStatistics
from .record import Labels as Labels
from .record import LabelScore as LabelScore
from .record import ModelLabels as ModelLabels
from .record import Points as Points
from .record import TextRead as TextRead
from .streams import open_cached as open_cached
from .streams import open_live as open_live
from .text import RowText as RowText
from .text import TextSource as TextSource
from .text import text_behind as text_behind
