// What an application sees through the official Go driver.
//
//	check MAIN_HOST MAIN_PORT REPLICA_HOST REPLICA_PORT USER PASSWORD
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func ids(ctx context.Context, session neo4j.SessionWithContext) []int64 {
	read := must(session.ExecuteRead(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
		result, err := tx.Run(ctx, "MATCH (n:G) RETURN n.id AS id ORDER BY id", nil)
		if err != nil {
			return nil, err
		}
		var seen []int64
		for result.Next(ctx) {
			id, _ := result.Record().Get("id")
			seen = append(seen, id.(int64))
		}
		return seen, result.Err()
	}))
	return read.([]int64)
}

func main() {
	ctx := context.Background()
	arguments := os.Args[1:]
	main := fmt.Sprintf("bolt://%s:%s", arguments[0], arguments[1])
	replica := fmt.Sprintf("bolt://%s:%s", arguments[2], arguments[3])
	user, password := arguments[4], arguments[5]

	driver := must(neo4j.NewDriverWithContext(main, neo4j.BasicAuth(user, password, "")))
	if err := driver.VerifyConnectivity(ctx); err != nil {
		fail("%v", err)
	}
	session := driver.NewSession(ctx, neo4j.SessionConfig{})
	must(must(session.Run(ctx, "CREATE (:G {id: $id})", map[string]any{"id": 1})).Consume(ctx))
	transaction := must(session.BeginTransaction(ctx))
	must(must(transaction.Run(ctx, "CREATE (:G {id: 2})", nil)).Consume(ctx))
	if err := transaction.Rollback(ctx); err != nil {
		fail("%v", err)
	}
	must(session.ExecuteWrite(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
		return tx.Run(ctx, "CREATE (:G {id: 3})", nil)
	}))
	if seen := ids(ctx, session); len(seen) != 2 || seen[0] != 1 || seen[1] != 3 {
		fail("stored %v", seen)
	}
	if _, err := session.Run(ctx, "NOT CYPHER", nil); err == nil || !strings.Contains(err.Error(), "ClientError") {
		fail("a syntax error is %v", err)
	}
	session.Close(ctx)
	driver.Close(ctx)

	wrong := must(neo4j.NewDriverWithContext(main, neo4j.BasicAuth(user, "wrong", "")))
	if err := wrong.VerifyConnectivity(ctx); err == nil || !strings.Contains(err.Error(), "Authentication failure") {
		fail("a wrong password is %v", err)
	}

	reader := must(neo4j.NewDriverWithContext(replica, neo4j.NoAuth()))
	session = reader.NewSession(ctx, neo4j.SessionConfig{})
	if seen := ids(ctx, session); len(seen) != 2 {
		fail("the replica holds %v", seen)
	}
	_, err := session.ExecuteWrite(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
		result, err := tx.Run(ctx, "CREATE (:G)", nil)
		if err != nil {
			return nil, err
		}
		return result.Consume(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "Write queries are forbidden on the replica instance.") {
		fail("a write on a replica is %v", err)
	}
	fmt.Println("go: ok")
}
