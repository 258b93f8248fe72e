"""The published client, with a record of which of its methods have had an answer.

Whoever has driven it asks `undriven` in the end, so that a method that a new client brings is missed.
"""

import functools
import inspect

from openwop_client import OpenwopClient

METHODS = {name for name, _ in inspect.getmembers(OpenwopClient, inspect.isfunction) if not name.startswith("_")}
driven: set[str] = set()


def _recorded(name):
    method = getattr(OpenwopClient, name)

    @functools.wraps(method)
    def call(self, *arguments, **options):
        answer = method(self, *arguments, **options)
        driven.add(name)
        return answer

    return call


RecordedClient = type("RecordedClient", (OpenwopClient,), {name: _recorded(name) for name in METHODS})


def undriven():
    """The methods that no host has answered but by a refusal."""
    return METHODS - driven
