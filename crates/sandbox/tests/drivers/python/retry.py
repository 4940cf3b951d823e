"""A managed transaction of the official driver while no MAIN takes connections.

    retry.py HOST PORT USER PASSWORD
"""

import sys

import neo4j

HOST, PORT, USER, PASSWORD = sys.argv[1:]

with neo4j.GraphDatabase.driver(f"bolt://{HOST}:{PORT}", auth=(USER, PASSWORD)) as driver:
    try:
        driver.verify_connectivity()
        raise AssertionError("nobody serves, and it was let in")
    except neo4j.exceptions.TransientError as error:
        assert error.is_retryable() and "Try again" in str(error), error
    with driver.session() as session:
        session.execute_write(lambda tx: tx.run("CREATE (:P {id: 1})").consume())
        assert session.run("MATCH (n:P) RETURN count(n) AS c").single()["c"] == 1
print("retry: ok")
