"""Reads frames as servers on Python do, and prints one JSON line for each that is, or holds, a `tools/call`: the SHA-256
of the line with its line feed, and the tools called. A carriage return ends a line here, as it does for the official SDK.
"""

import hashlib
import io
import json
import sys


def called(line):
    """Leniently: without a byte order mark, and whatever else stands in the message."""
    try:
        message = json.loads(line.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return []
    messages = message if isinstance(message, list) else [message]
    calls = [one for one in messages if isinstance(one, dict) and one.get("method") == "tools/call"]
    parameters = [one["params"] if isinstance(one.get("params"), dict) else {} for one in calls]
    return [one.get("name") for one in parameters]


for raw in sys.stdin.buffer.read().split(b"\n")[:-1]:
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", errors="replace", newline=None)
    tools = [tool for line in text for tool in called(line)]
    if tools:
        print(json.dumps({"sha256": hashlib.sha256(raw + b"\n").hexdigest(), "tools": tools}))
