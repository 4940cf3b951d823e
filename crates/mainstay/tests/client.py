#!/usr/bin/env python3
"""A client of a drill that writes as applications do, with a driver of theirs.

    client.py neo4j|managed|routed|pymgclient|mgtransaction HOST PORT RUN

Reads one number per line, creates a vertex with it, and prints what its driver said: `acknowledged`, `failed` (nothing
can have been written) or `unknown`. It never tries a number twice: what the driver says of it is what counts.
`managed` and `routed` let the driver retry, as applications do, with bolt:// and with neo4j://.
"""

import sys

KIND, HOST, PORT, RUN = sys.argv[1:]
QUERY = "CREATE (:Drill {run: $run, id: $id})"
# The server's own words for a commit that did not happen.
NEVER = (
    "aborted on all instances",
    "not main anymore",
    "forbidden on the replica",
    "asked to abort",
    "Nothing of this was committed",
)


def neo4j_writer():
    import neo4j

    # No retries of its own: the drill must know what became of each number.
    driver = neo4j.GraphDatabase.driver(
        f"bolt://{HOST}:{PORT}",
        auth=None,
        connection_timeout=15,
        connection_acquisition_timeout=15,
        max_transaction_retry_time=0,
        telemetry_disabled=True,
    )

    def write(number):
        with driver.session() as session:
            session.run(QUERY, run=int(RUN), id=number).consume()

    return write


def managed_writer(scheme):
    import neo4j

    # As applications use it: the driver tries again what it holds for safe.
    driver = neo4j.GraphDatabase.driver(
        f"{scheme}://{HOST}:{PORT}",
        auth=None,
        connection_timeout=15,
        connection_acquisition_timeout=15,
        max_transaction_retry_time=15,
        telemetry_disabled=True,
    )

    def write(number):
        with driver.session() as session:
            session.execute_write(
                lambda tx: tx.run(QUERY, run=int(RUN), id=number).consume()
            )

    return write


def pymgclient_writer(autocommit=True):
    import mgclient

    connection = None

    def write(number):
        nonlocal connection
        if connection is None:
            try:
                connection = mgclient.connect(host=HOST, port=int(PORT))
            except mgclient.Error as error:
                raise NotSent from error
            connection.autocommit = autocommit
        try:
            cursor = connection.cursor()
            cursor.execute(QUERY, {"run": int(RUN), "id": number})
            cursor.fetchall()
            if not autocommit:
                connection.commit()
        except mgclient.Error:
            connection = None
            raise

    return write


class NotSent(Exception):
    """There was no connection, so nothing was sent."""


def outcome(write, number):
    try:
        write(number)
    except NotSent:
        return "failed"
    except Exception as error:  # Whatever a driver says; only its words count.
        return "failed" if any(words in str(error) for words in NEVER) else "unknown"
    return "acknowledged"


def main():
    write = {
        "neo4j": neo4j_writer,
        "managed": lambda: managed_writer("bolt"),
        "routed": lambda: managed_writer("neo4j"),
        "pymgclient": pymgclient_writer,
        "mgtransaction": lambda: pymgclient_writer(autocommit=False),
    }[KIND]()
    for line in sys.stdin:
        print(outcome(write, int(line)), flush=True)


main()
