#!/usr/bin/env python3
"""ledger.py HOST PORT RUN: writes through a gateway with the official driver until it is told to end, then counts.

Four clients write numbered vertices, one transaction each. Whatever was answered with success is acknowledged; who gets no
answer for five seconds gives up, and connects again. `ready` is printed when the first is acknowledged; a line on standard
input ends it. Then every number is read back, and one line of JSON says what was acknowledged, failed or left unknown, the
longest time without an acknowledgement, all times of more than a second together, and what is missing or there twice.
"""
import json
import logging
import queue
import sys
import threading
import time

from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

HOST, PORT, RUN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CLIENTS = 4
ANSWER, CONNECT = 5.0, 2.0
DARK = 1.0
# Nothing can have been committed: said by the gateway, or by the database before a commit.
NEVER = ("aborted on all instances", "not main anymore", "forbidden on the replica", "asked to abort", "Couldn't connect to")

# What became of each write is counted; the driver's own account of it is only noise.
logging.getLogger("neo4j").setLevel(logging.CRITICAL)


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.acknowledged, self.failed, self.unknown = set(), 0, set()
        self.last, self.longest, self.dark = None, 0.0, 0.0
        self.error = ""

    def success(self, number):
        with self.lock:
            first = not self.acknowledged
            self.acknowledged.add(number)
            self.look()
        if first:
            print("ready", flush=True)

    def look(self):
        """The time since the last acknowledgement is over."""
        now = time.monotonic()
        if self.last is not None:
            gap = now - self.last
            self.longest = max(self.longest, gap)
            self.dark += gap if gap > DARK else 0.0
        self.last = now

    def failure(self, number, error):
        with self.lock:
            self.error = str(error)
            if any(words in str(error) for words in NEVER):
                self.failed += 1
            else:
                self.unknown.add(number)


def connect():
    return GraphDatabase.driver(
        f"bolt://{HOST}:{PORT}",
        auth=None,
        connection_timeout=CONNECT,
        connection_acquisition_timeout=ANSWER,
        max_transaction_retry_time=0,
        telemetry_disabled=True,
    )


class Line:
    """One connection in a thread of its own: the driver waits for an answer for ever, and a lost node sends none."""

    def __init__(self):
        self.asked, self.answers = queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        driver = connect()
        while True:
            number = self.asked.get()
            if number is None:
                driver.close()
                return
            try:
                with driver.session() as session:
                    session.run("CREATE (:Drill {run: $run, id: $id})", run=RUN, id=number).consume()
                self.answers.put(None)
            except (DriverError, Neo4jError, OSError) as error:
                self.answers.put(error)

    def write(self, number):
        """What went wrong, if anything did."""
        self.asked.put(number)
        try:
            return self.answers.get(timeout=ANSWER)
        except queue.Empty:
            return TimeoutError(f"no answer for {ANSWER} s")

    def leave(self):
        self.asked.put(None)


def write(ledger, end, number):
    line = Line()
    while not end.is_set():
        error = line.write(number)
        if error is None:
            ledger.success(number)
        else:
            ledger.failure(number, error)
            line.leave()
            line = Line()
            time.sleep(0.02)
        number += CLIENTS
        time.sleep(0.02)
    line.leave()


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
    writers = [threading.Thread(target=write, args=(ledger, end, n)) for n in range(CLIENTS)]
    for writer in writers:
        writer.start()
    sys.stdin.readline()
    end.set()
    for writer in writers:
        writer.join()
    ledger.look()
    found = read_back()
    print(
        json.dumps(
            {
                "acknowledged": len(ledger.acknowledged),
                "failed": ledger.failed,
                "unknown": len(ledger.unknown),
                "gapMs": round(ledger.longest * 1000),
                "darkMs": round(ledger.dark * 1000),
                "lost": len(ledger.acknowledged - set(found)),
                "twice": len(found) - len(set(found)),
                "lastError": ledger.error,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
