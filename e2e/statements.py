#!/usr/bin/env python3
"""statements.py HOST PORT STATEMENT...: runs statements on one database and prints the rows of each as a line of JSON."""
import json
import sys

from neo4j import GraphDatabase

HOST, PORT, STATEMENTS = sys.argv[1], int(sys.argv[2]), sys.argv[3:]

with GraphDatabase.driver(f"bolt://{HOST}:{PORT}", auth=None, connection_timeout=5, telemetry_disabled=True) as driver:
    for statement in STATEMENTS:
        with driver.session() as session:
            print(json.dumps([list(row) for row in session.run(statement)], default=str), flush=True)
