"""Reads every golden stream with the types made from the event schema.

Usage: read.py DIRECTORY_OF_STREAMS, with the generated module `events` on the
path. Nothing may be lost on the way, and only the stream called `unknown` may
hold kinds that the schema does not list, besides those that are no longer
written.
"""

import json
import sys
from datetime import datetime
from pathlib import Path

from events import OtherEvent, SessionEvent

RETIRED = ("question_asked", "question_answered")


def same(before, after):
    """Whether two JSON values are equal; times may be written differently."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(same(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same, before, after))
    if before != after and isinstance(before, str) and isinstance(after, str):
        return datetime.fromisoformat(before) == datetime.fromisoformat(after)
    return before == after


read = 0
for path in sorted(Path(sys.argv[1]).glob("*/*.jsonl")):
    for line in path.read_text().splitlines():
        event = SessionEvent.model_validate_json(line)
        payload = getattr(event.payload, "root", event.payload)
        unlisted = isinstance(payload, OtherEvent) and payload.kind not in RETIRED
        if unlisted and path.stem != "unknown":
            sys.exit(f"{path.name}: a kind that the types do not know: {line}")
        written = event.model_dump(mode="json", exclude_unset=True)
        if not same(json.loads(line), written):
            sys.exit(f"{path.name}: lost something of {line}\nread as {json.dumps(written)}")
        read += 1
if read < 100:
    sys.exit(f"only {read} events were read")
print(f"read {read} events")
