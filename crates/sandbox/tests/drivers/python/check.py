"""What an application sees through the official Python driver and pymgclient.

    check.py MAIN_HOST MAIN_PORT REPLICA_HOST REPLICA_PORT USER PASSWORD [routed]

`routed`: whoever is there answers ROUTE, so that neo4j:// works.
"""

import sys

import mgclient
import neo4j

HOST, PORT, REPLICA_HOST, REPLICA_PORT, USER, PASSWORD = sys.argv[1:7]
ROUTED = sys.argv[7:] == ["routed"]
MAIN = f"bolt://{HOST}:{PORT}"
REPLICA = f"bolt://{REPLICA_HOST}:{REPLICA_PORT}"
FORBIDDEN = "Write queries are forbidden on the replica instance."


def refused(what, kind, code):
    """Runs something that must fail in one way."""
    try:
        what()
    except kind as error:
        assert code in (getattr(error, "code", "") or "") or code in str(error), error
        return error
    raise AssertionError(f"was not refused with {code}")


def official():
    with neo4j.GraphDatabase.driver(MAIN, auth=(USER, PASSWORD)) as driver:
        driver.verify_connectivity()
        with driver.session() as session:
            session.run("CREATE (:P {id: $id})", id=1).consume()
            rows = session.run("MATCH (n:P) RETURN n.id AS id").data()
            assert rows == [{"id": 1}], rows
            node = session.run("MATCH (n:P) RETURN n").single()["n"]
            assert set(node.labels) == {"P"} and node["id"] == 1, node
            with session.begin_transaction() as transaction:
                transaction.run("CREATE (:P {id: 2})").consume()
                transaction.rollback()
            session.execute_write(lambda tx: tx.run("CREATE (:P {id: 3})").consume())
            ids = session.execute_read(
                lambda tx: [r["id"] for r in tx.run("MATCH (n:P) RETURN n.id AS id ORDER BY id")]
            )
            assert ids == [1, 3], ids
            many = session.run("UNWIND range(1, 2500) AS x RETURN x")
            assert sum(1 for _ in many) == 2500
            summary = session.run("CREATE (:P {id: 4})").consume()
            assert summary.counters.nodes_created == 1, summary.counters
            refused(lambda: session.run("NOT CYPHER").consume(), neo4j.exceptions.ClientError, "ClientError")
            # The session is usable after a failure.
            assert session.run("RETURN 1 AS x").single()["x"] == 1
    refused(
        lambda: neo4j.GraphDatabase.driver(MAIN, auth=(USER, "wrong")).verify_connectivity(),
        neo4j.exceptions.Neo4jError,
        "Authentication failure",
    )
    with neo4j.GraphDatabase.driver(MAIN.replace("bolt:", "neo4j:"), auth=(USER, PASSWORD)) as driver:
        if ROUTED:
            driver.verify_connectivity()
            with driver.session(default_access_mode=neo4j.READ_ACCESS) as session:
                assert session.execute_read(lambda tx: tx.run("RETURN 1 AS x").single()["x"]) == 1
        else:
            refused(driver.verify_connectivity, neo4j.exceptions.ServiceUnavailable, "routing information")
    with neo4j.GraphDatabase.driver(REPLICA, auth=None) as driver:
        with driver.session() as session:
            assert session.run("MATCH (n:P) RETURN count(n) AS c").single()["c"] == 3
            error = refused(
                lambda: session.execute_write(lambda tx: tx.run("CREATE (:P)").consume()),
                neo4j.exceptions.ClientError,
                "Memgraph.ClientError.MemgraphError.MemgraphError",
            )
            assert FORBIDDEN in str(error) and not error.is_retryable(), error


def pymgclient():
    connection = mgclient.connect(host=HOST, port=int(PORT), username=USER, password=PASSWORD)
    cursor = connection.cursor()
    cursor.execute("CREATE (:M {id: $id})", {"id": 1})
    connection.commit()
    cursor.execute("CREATE (:M {id: 2})")
    connection.rollback()
    cursor.execute("MATCH (n:M) RETURN n.id")
    assert cursor.fetchall() == [(1,)]
    connection.commit()
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SHOW REPLICATION ROLE")
    assert cursor.fetchall() == [("main",)]
    cursor.execute("CREATE (:M {id: 3})")
    cursor.execute("MATCH (n:M) RETURN count(n)")
    assert cursor.fetchall() == [(2,)]
    replica = mgclient.connect(host=REPLICA_HOST, port=int(REPLICA_PORT))
    replica.autocommit = True
    refused(lambda: replica.cursor().execute("CREATE (:M)"), mgclient.DatabaseError, FORBIDDEN)


official()
pymgclient()
print("python: ok")
