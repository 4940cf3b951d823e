"""Writes through the official Python driver until the server is gone.

    load.py HOST PORT

Prints the id of every write that was acknowledged, one per line.
"""

import sys

import neo4j

HOST, PORT = sys.argv[1:]

with neo4j.GraphDatabase.driver(f"bolt://{HOST}:{PORT}", auth=None) as driver:
    with driver.session() as session:
        for number in range(100_000):
            try:
                session.run("CREATE (:W {id: $id})", id=number).consume()
            except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError, OSError):
                break
            print(number, flush=True)
