// A client of a drill that writes with the official Go driver, which retries as it does for applications.
//
//	client bolt|neo4j HOST PORT RUN
//
// Reads one number per line and prints what the driver said of it: acknowledged, failed or unknown.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/config"
)

func write(ctx context.Context, driver neo4j.DriverWithContext, run, id int64) string {
	session := driver.NewSession(ctx, neo4j.SessionConfig{})
	defer session.Close(ctx)
	_, err := session.ExecuteWrite(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
		result, err := tx.Run(ctx, "CREATE (:Drill {run: $run, id: $id})", map[string]any{"run": run, "id": id})
		if err != nil {
			return nil, err
		}
		return result.Consume(ctx)
	})
	switch {
	case err == nil:
		return "acknowledged"
	case strings.Contains(err.Error(), "Nothing of this was committed"):
		return "failed"
	default:
		return "unknown"
	}
}

func main() {
	arguments := os.Args[1:]
	address := fmt.Sprintf("%s://%s:%s", arguments[0], arguments[1], arguments[2])
	run, err := strconv.ParseInt(arguments[3], 10, 64)
	if err != nil {
		panic(err)
	}
	driver, err := neo4j.NewDriverWithContext(address, neo4j.NoAuth(), func(c *config.Config) {
		c.MaxTransactionRetryTime = 15 * time.Second
		c.ConnectionAcquisitionTimeout = 15 * time.Second
		c.TelemetryDisabled = true
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		id, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			panic(err)
		}
		fmt.Println(write(ctx, driver, run, id))
	}
}
