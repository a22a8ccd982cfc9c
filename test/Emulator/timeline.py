"""Checks a timeline that attn-run --timeline has written: what Perfetto expects
of its events, and what the kernel's have to say.

    timeline.py FILE.json
"""

import collections
import json
import sys


def fail(text):
    sys.exit(f"timeline: {text}")


def main():
    with open(sys.argv[1]) as file:
        events = json.load(file)["traceEvents"]
    processes, threads = {}, {}
    tracks, arrows = collections.defaultdict(list), collections.defaultdict(dict)
    for event in events:
        where = (event["pid"], event["tid"])
        if event["ph"] == "M" and event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "M" and event["name"] == "thread_name":
            threads[where] = event["args"]["name"]
        elif event["ph"] == "X":
            if (
                not event["name"]
                or event["ts"] < 0
                or event["dur"] <= 0
                or not event["args"]["op"]
            ):
                fail(
                    f"expected a name, a time, a length and an operation, but got "
                    f"{event}"
                )
            tracks[where].append(event)
        elif event["ph"] in "sf":
            arrows[event["id"]][event["ph"]] = event
        else:
            fail(f"expected slices, arrows and names, but got {event}")

    # Slices of a track follow each other.
    for where, slices in tracks.items():
        if where not in threads or where[0] not in processes:
            fail(f"expected a name of track {where}")
        for one, other in zip(slices, slices[1:]):
            if other["ts"] < one["ts"] + one["dur"] - 1e-6:
                fail(f"expected {other} to begin after {one} has ended")

    # An arrow leads from a copy to a wait at the barrier that it counts at.
    for both in arrows.values():
        ends = []
        for phase in "sf":
            event = both[phase]
            under = [s for s in tracks[event["pid"], event["tid"]]
                     if s["ts"] <= event["ts"] < s["ts"] + s["dur"]]
            if len(under) != 1:
                fail(f"expected one slice under {event}, but got {under}")
            ends += under
        copy, wait = ends
        same = all(copy["args"][key] == wait["args"][key]
                   for key in ("barrier", "slot"))
        if (copy["cat"], wait["cat"]) != ("copy", "wait") or not same:
            fail(
                f"expected an arrow from a copy to its wait, but got {copy} and {wait}")
        if copy["ts"] + copy["dur"] > wait["ts"] + wait["dur"] + 1e-6:
            fail(f"expected {copy} to end before {wait}")

    for number, name in sorted(processes.items()):
        print(name)
        for where, thread in sorted(threads.items()):
            if where[0] == number:
                names = collections.Counter(s["name"] for s in tracks[where])
                print(f"  {thread}: "
                      + ", ".join(f"{n} {count}" for n, count in sorted(names.items())))
    print(f"{sum(len(s) for s in tracks.values())} slices, {len(arrows)} arrows")


if __name__ == "__main__":
    main()
