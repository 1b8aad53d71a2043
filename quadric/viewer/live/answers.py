"""Recent answers, kept within a bound of bytes."""

from collections import OrderedDict
from threading import Lock

MOST_BYTES = 32 << 20


class Answers:
    """Answers by question; the least recently used go first when there are too many bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.n_bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, question: str) -> bytes | None:
        """The answer, if it is still kept."""
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
            return self._kept.get(question)

    def put(self, question: str, answer: bytes) -> None:
        """Keep an answer; one larger than the whole bound is not kept."""
        with self._lock:
            self._drop(question)
            if len(question) + len(answer) > self.most_bytes:
                return
            self._kept[question] = answer
            self.n_bytes += len(question) + len(answer)
            while self.n_bytes > self.most_bytes:
                self._drop(next(iter(self._kept)))

    def _drop(self, question: str) -> None:
        answer = self._kept.pop(question, None)
        if answer is not None:
            self.n_bytes -= len(question) + len(answer)
