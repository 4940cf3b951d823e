#!/usr/bin/env python3
"""ledger.py HOST PORT RUN: writes through a gateway with the official driver until it is told to end, then counts.

Two clients write numbered vertices, one transaction each. Whatever was answered with success is acknowledged. `ready` is
printed when the first is; a line on standard input ends it. Then every number is read back, and one line of JSON says
what was acknowledged, failed or left unknown, the longest time without an acknowledgement, and what is missing or there
twice.
"""
import json
import logging
import sys
import threading
import time

from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

HOST, PORT, RUN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# Nothing can have been committed: said by the gateway, or by the database before a commit.
NEVER = ("aborted on all instances", "not main anymore", "forbidden on the replica", "asked to abort")

# What became of each write is counted; the driver's own account of it is only noise.
logging.getLogger("neo4j").setLevel(logging.CRITICAL)


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.acknowledged, self.failed, self.unknown = set(), 0, set()
        self.last, self.longest = None, 0.0
        self.error = ""

    def success(self, number):
        now = time.monotonic()
        with self.lock:
            self.acknowledged.add(number)
            if self.last is not None:
                self.longest = max(self.longest, now - self.last)
            elif not self.acknowledged - {number}:
                print("ready", flush=True)
            self.last = now

    def failure(self, number, error):
        with self.lock:
            self.error = str(error)
            if any(words in str(error) for words in NEVER):
                self.failed += 1
            else:
                self.unknown.add(number)


def connect():
    address = f"bolt://{HOST}:{PORT}"
    return GraphDatabase.driver(
        address, auth=None, connection_timeout=15, max_transaction_retry_time=0, telemetry_disabled=True
    )


def write(ledger, end, first, step):
    number = first
    driver = connect()
    while not end.is_set():
        try:
            with driver.session() as session:
                session.run("CREATE (:Drill {run: $run, id: $id})", run=RUN, id=number).consume()
            ledger.success(number)
        except (DriverError, Neo4jError, OSError) as error:
            ledger.failure(number, error)
            driver.close()
            driver = connect()
            time.sleep(0.02)
        number += step
        time.sleep(0.005)
    driver.close()


def read_back():
    deadline = time.monotonic() + 30
    while True:
        driver = connect()
        try:
            with driver.session() as session:
                return [row[0] for row in session.run("MATCH (n:Drill {run: $run}) RETURN n.id", run=RUN)]
        except (DriverError, Neo4jError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        finally:
            driver.close()


def main():
    ledger, end = Ledger(), threading.Event()
    writers = [threading.Thread(target=write, args=(ledger, end, n, 2)) for n in range(2)]
    for writer in writers:
        writer.start()
    sys.stdin.readline()
    end.set()
    for writer in writers:
        writer.join()
    found = read_back()
    print(
        json.dumps(
            {
                "acknowledged": len(ledger.acknowledged),
                "failed": ledger.failed,
                "unknown": len(ledger.unknown),
                "gapMs": round(ledger.longest * 1000),
                "lost": len(ledger.acknowledged - set(found)),
                "twice": len(found) - len(set(found)),
                "lastError": ledger.error,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
