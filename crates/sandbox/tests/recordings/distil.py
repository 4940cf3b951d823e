#!/usr/bin/env python3
"""Distils recordings of real servers into what the replay compares.

    distil.py FOLDER OUT

FOLDER holds `memgraph-<version>/<scenario>.jsonl`, one JSON object per step as
a recorder wrote it. OUT gets `<version>/<scenario>.jsonl` in our own, smaller
form: only what is done and what is compared, with clocks and random values
taken out. Runs without anything but Python's own library.
"""

import json
import pathlib
import re
import sys

# Nothing in these can be compared step by step.
LEFT_OUT = {
    "06b_sigterm_under_load",  # counts under random load
    "08_latency",  # a benchmark
    "09_bolt",  # handshake and states: crates/bolt/tests/memgraph.rs plays them
    "13_failover_drill",  # counts under random load
    "20_drop_right_after_writes",  # a race that was counted
    "21_drop_async_race",  # a race that was counted
}
VERSIONS = {"memgraph-3.6.2": "3.6", "memgraph-3.12.0": "3.12"}
FRESH = ("unrelated disk", "MAIN without WAL")
SIZE = re.compile(r"^[\d.]+(B|KiB|MiB|GiB)$")


def cell(value):
    """A value without clocks and random parts."""
    if isinstance(value, str):
        if SIZE.match(value) or value == "unlimited":
            return "<size>"
        if re.match(r"^[0-9a-f]{8}-[0-9a-f]{4}-", value):
            return "<uuid:" + value + ">"
        if "/snapshots/" in value:
            return "<path>"
        if re.match(r"^\d{4}-\d\d-\d\dT", value):
            return "<time>"
        return value
    if isinstance(value, dict):
        if set(value) == {"ts", "behind", "status"}:
            behind = value["behind"]
            return {"behind": (behind > 0) - (behind < 0), "status": value["status"]}
        return {key: cell(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [cell(inner) for inner in value]
    return value


def rows_of(query, columns, rows):
    out = [cell(row) for row in rows]
    if columns[:1] == ["path"] and len(columns) == 4:
        out = [["<path>", "<ts>", "<time>", "<size>"] for _ in out]
    if query.startswith("SHOW CONFIG"):
        out = []  # lists every flag of the real server
    return out


def summary_of(summary):
    seen = {"type": summary.get("type")}
    if "stats" in summary:
        seen["stats"] = {key: count for key, count in summary["stats"].items() if count}
    if "notifications" in summary:
        seen["notes"] = [f"{n['severity']} {n['code']}: {n['title']}" for n in summary["notifications"]]
    return seen


def seen_in(step, query):
    if step.get("outcome") == "connection error":
        return {"lost": "timeout" if "Timeout" in step["error"] else "closed"}
    if step.get("failure"):
        failure = step["failure"]
        return {"code": failure["code"], "message": failure["message"], "on": failure["on"]}
    columns = step.get("columns", [])
    seen = {"columns": columns, "rows": rows_of(query, columns, step.get("rows", []))}
    seen.update(summary_of(step.get("summary") or {}))
    return seen


def reply_of(reply):
    """One answer inside an explicit transaction."""
    if isinstance(reply, dict):
        return seen_in(dict(reply, outcome=None), "")
    if reply[0] == "FAILURE":
        return {"code": reply[1]["code"], "message": reply[1]["message"], "on": "COMMIT"}
    return {}


def transaction(step):
    query = step["query"]
    if isinstance(query, str) and query.startswith("BEGIN;"):
        inner = query.removeprefix("BEGIN;").split("--")[0].strip()
        return {"do": "begin", "query": inner, "see": reply_of(step["replies"][1])}
    if isinstance(query, str) and query.startswith("COMMIT of"):
        return {"do": "commit", "see": reply_of(step["replies"][0])}
    replies = [[what, reply_of(reply)] for what, reply in step["replies"]]
    return {"do": "transaction", "replies": replies}


def control(step, scenario):
    what = step["control"]
    if what == "start":
        flags = [flag for flag in step["flags"] if flag != "--init-file"]
        out = {"do": "start", "flags": [f for f in flags if not f.startswith("--log-level")]}
        for key in ("init", "env"):
            if key in step:
                out[key] = step[key]
        return out
    if what == "bolt open":
        return {"do": "open"}
    if what.startswith("signal SIG"):
        return {"do": "signal", "signal": what.removeprefix("signal SIG")}
    if what == "process ended":
        return {"do": "ended", "code": step["rc"]}
    if what in ("wipe wal and snapshots", "wipe snapshots"):
        return {"do": "wipe", "folders": [f for f in ("wal", "snapshots") if f in what]}
    if what == "data directory emptied":
        return {"do": "wipe", "folders": ["."]}
    if what.startswith("disk put back"):
        return {"do": "restore"}
    if what.startswith("partition"):
        return {"do": "cut"}
    if what == "heal partition":
        return {"do": "heal"}
    if what.startswith("from now on swallow everything MAIN sends after the vote"):
        return {"do": "swallow", "node": "n1", "rpc": "finalize"}
    if what == "path healed":
        return {"do": "mend", "node": "n1"}
    if what.startswith("role asked every"):
        answers = [seen["answer"] for seen in step["seen"] if not isinstance(seen["answer"], str)]
        return {"do": "first_role", "see": answers[0][0][0] if answers else None}
    if what == "login":
        logon = step["reply"].get("LOGON") or step["reply"]["HELLO"]
        return {"do": "login", "auth": step["auth"], "see": logon[0]}
    if what.startswith("earliest write after start"):
        return {"do": "load", "count": 0, "earliest": True}
    if what == "what the writer saw":
        counts = step["counts"]
        pairs = counts.items() if isinstance(counts, dict) else ((key[0], n) for key, n in counts)
        return {"do": "writer", "count": sum(n for key, n in pairs if key.startswith("success"))}
    if what == "poll gave up":
        return {"do": "gave_up", "after": step["after_s"]}
    if what == "transaction opened and left open":
        return {"do": "begin", "query": "MATCH (n) RETURN count(n)", "see": None}
    if what == "commit of the reader":
        return {"do": "commit", "see": {}}
    return None


ACKNOWLEDGED = {
    "columns": [],
    "rows": [],
    "type": "w",
    "stats": {"labels-added": 1, "nodes-created": 1},
}
DEMOTE = "SET REPLICATION ROLE TO REPLICA WITH PORT 10000"


def written(steps, writer):
    """What a writer wrote until its MAIN was demoted, before the demotion.

    How often the demotion had to be tried under load is chance: only the last is kept.
    """
    tried = [i for i, s in enumerate(steps) if s.get("query") == DEMOTE and s["node"] == writer["node"]]
    refused = [i for i in tried if "message" in steps[i]["see"]]
    first = min(refused + tried[-1:])
    load = dict(steps[first], do="load", count=writer["count"], d=0)
    load = {key: load[key] for key in ("n", "t", "d", "do", "count", "node")}
    kept = [s for i, s in enumerate(steps) if i not in refused]
    at = next(i for i, s in enumerate(kept) if s is steps[tried[-1]])
    return kept[:at] + [load] + kept[at:]


def distil(path, scenario):
    steps = []
    fresh = taken = False
    for line in path.read_text().splitlines():
        step = json.loads(line)
        # These begin with empty disks, which the recorder did not note.
        if set(step) <= {"scenario", "step", "t", "note"} and "note" in step:
            fresh = scenario == "10_open_points" and step["note"].startswith(FRESH)
            taken = step["note"].startswith("port of the replication server taken")
        if taken and step.get("control") == "start":
            at = round(step["t"] * 1000)
            steps.append(dict(n=step["step"], t=at, d=0, do="occupy", node=step["node"]))
        if fresh and step.get("control") == "start":
            at = round(step["t"] * 1000)
            steps.append(dict(n=step["step"], t=at, d=0, do="wipe", folders=["."], node=step["node"]))
        end = round(step["t"] * 1000)
        took = round(step.get("elapsed_ms", 0)) if "via" in step or "poll_ms" in step else 0
        out = None
        if step.get("via") == "autocommit":
            out = {"do": "ask", "query": step["query"], "see": seen_in(step, step["query"])}
            if step.get("params"):
                out["params"] = step["params"]
            if "poll_ms" in step:
                out["do"] = "poll"
                out["polled"] = step["poll_ms"]
        elif step.get("via") == "explicit transaction":
            out = transaction(step)
        elif "control" in step:
            out = control(step, scenario)
        if out is None:
            continue
        if "node" in step:
            out.setdefault("node", step["node"])
        if out.pop("earliest", False):
            query = "CREATE (:W {id: 3})"
            out = {"do": "ask", "query": query, "node": step["node"], "see": ACKNOWLEDGED}
        if out["do"] == "writer":
            steps = written(steps, out)
            continue
        steps.append(dict(n=step["step"], t=max(0, end - took), d=took, **out))
    return merge_polls(proxied(saved(soon(steps)), scenario))


def soon(steps):
    """Marks looks at replicas within a ping of a refused write: the ping may be faster."""
    refused = {}
    for step in steps:
        if step["do"] == "ask" and step["query"].startswith("CREATE") and "message" in step["see"]:
            refused[step["node"]] = step["t"] + step["d"]
        looks = step["do"] == "ask" and step["query"] == "SHOW REPLICAS"
        if looks and step["t"] - refused.get(step["node"], -9999) < 1000:
            step["soon"] = True
    return steps


def saved(steps):
    """A disk that is put back was copied before the writes it lacks."""
    back = next((s for s in steps if s["do"] == "restore"), None)
    if back is None:
        return steps
    first = next(i for i, s in enumerate(steps) if s.get("query") == "CREATE (:W {id: 7})")
    copy = dict(n=steps[first]["n"], t=steps[first]["t"], d=0, do="save", node=back["node"])
    return steps[:first] + [copy] + steps[first:]


# What the proxy of these recordings did without saying so in a step of its own.
PROXY = {("14b_finalize_window_healed", "CREATE (:W {id: 2})"): "finalize"}


def proxied(steps, scenario):
    out = []
    for step in steps:
        # Copying so much took a real server long enough to be promoted in the middle of it.
        if scenario == "15_promote_during_recovery" and step.get("query", "").startswith("REGISTER"):
            out.append(dict(n=step["n"], t=step["t"], d=0, do="slow_recovery", node="n1"))
        rpc = PROXY.get((scenario, step.get("query")))
        if rpc:
            out.append(dict(n=step["n"], t=step["t"], d=0, do="swallow", node="n1", rpc=rpc))
        out.append(step)
    return out


def merge_polls(steps):
    """Of a poll only where it ended is compared: what was seen on the way depends on when one looked."""
    out = []
    for step in steps:
        last = out[-1] if out else None
        same = (
            last is not None
            and last["do"] == "poll"
            and step["do"] == "poll"
            and (last["node"], last["query"]) == (step["node"], step["query"])
            and step["polled"] > last["polled"]
        )
        if same:
            out[-1] = dict(step, t=last["t"])
        elif step["do"] == "gave_up" and last is not None and last["do"] == "poll":
            out[-1] = dict(last, polled=round(step["after"] * 1000), held=True)
        elif step["do"] != "gave_up":
            out.append(step)
    return in_order(out)


def in_order(steps):
    """Steps were noted when they ended. Only those that took long began before what was noted earlier."""
    out = []
    for step in steps:
        at = len(out)
        if step["d"] > 100:
            while at > 0 and out[at - 1]["t"] > step["t"]:
                at -= 1
        if at > 0:
            step["t"] = max(step["t"], out[at - 1]["t"])
        out.insert(at, step)
    return out


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    for folder, version in VERSIONS.items():
        (target / version).mkdir(parents=True, exist_ok=True)
        for path in sorted((source / folder).glob("*.jsonl")):
            scenario = path.stem
            if scenario in LEFT_OUT:
                continue
            lines = [json.dumps(step, separators=(",", ":")) for step in distil(path, scenario)]
            (target / version / path.name).write_text("\n".join(lines) + "\n")


main()
