// A client of a drill that writes with the official Java driver, which retries as it does for applications.
//
//     java -cp 'FOLDER/*' Client.java bolt|neo4j HOST PORT RUN
//
// Reads one number per line and prints what the driver said of it: acknowledged, failed or unknown.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.Config;
import org.neo4j.driver.Driver;
import org.neo4j.driver.GraphDatabase;
import org.neo4j.driver.Logging;

class Client {
    public static void main(String[] arguments) throws Exception {
        var address = arguments[0] + "://" + arguments[1] + ":" + arguments[2];
        long run = Long.parseLong(arguments[3]);
        var config = Config.builder()
                .withMaxTransactionRetryTime(15, TimeUnit.SECONDS)
                .withConnectionAcquisitionTimeout(15, TimeUnit.SECONDS)
                .withTelemetryDisabled(true)
                .withLogging(Logging.none())
                .build();
        try (var driver = GraphDatabase.driver(address, AuthTokens.none(), config);
                var lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(write(driver, run, Long.parseLong(line.trim())));
                System.out.flush();
            }
        }
    }

    static String write(Driver driver, long run, long id) {
        try (var session = driver.session()) {
            session.executeWriteWithoutResult(tx -> tx.run(
                            "CREATE (:Drill {run: $run, id: $id})", Map.of("run", run, "id", id))
                    .consume());
            return "acknowledged";
        } catch (RuntimeException error) {
            var text = String.valueOf(error.getMessage());
            return text.contains("Nothing of this was committed") ? "failed" : "unknown";
        }
    }
}
