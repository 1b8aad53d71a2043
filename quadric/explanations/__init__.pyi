"""The names of the room, imported on first use (`quadric._io.lazy`)."""

from .explaining import Explainer as Explainer
from .explaining import explain as explain
from .reading import Reading as Reading
from .record import Explanation as Explanation
from .record import Firing as Firing
from .record import TextLatent as TextLatent
from .record import Token as Token
from .record import TokenLatent as TokenLatent
