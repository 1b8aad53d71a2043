"""A griffe extension: shows the section `Example:` of a docstring as code, not as a box with running text."""

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """griffe knows the section `Examples:` only; docstrings here say `Example:`, since most have one."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
