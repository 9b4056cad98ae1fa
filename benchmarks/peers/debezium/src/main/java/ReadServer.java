import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.KeyValueChangeEventFormat;
import io.debezium.embedded.Connect;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Reads the changes of a table from a server into nothing: ReadServer PORT TABLE FOLDER CHANGES.
 *
 * FOLDER keeps the place in the log. The first run begins at the end of the log, a later one where the
 * one before ended. Prints "ready" when it knows its place, and at the end the seconds from then on. Records
 * stay Java objects: nothing is written as JSON or Avro.
 */
public final class ReadServer {
    private static volatile long ready;
    private static volatile long over;
    private static volatile Throwable failure;
    private static long changes;

    private static void begin() {
        if (ready == 0) {
            ready = System.nanoTime();
            System.out.println("ready");
        }
    }

    private static Properties properties(String port, String table, Path folder) {
        Properties all = new Properties();
        all.setProperty("name", "bench");
        all.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
        all.setProperty("topic.prefix", "bench");
        all.setProperty("database.hostname", "127.0.0.1");
        all.setProperty("database.port", port);
        all.setProperty("database.user", "bench");
        all.setProperty("database.password", "bench");
        all.setProperty("database.server.id", "4711");
        all.setProperty("database.include.list", table.substring(0, table.indexOf('.')));
        all.setProperty("table.include.list", table);
        all.setProperty("snapshot.mode", "no_data");
        all.setProperty("tombstones.on.delete", "false");
        all.setProperty("max.batch.size", "8192");
        all.setProperty("max.queue.size", "32768");
        all.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        all.setProperty("offset.storage.file.filename", folder.resolve("offsets").toString());
        all.setProperty("offset.flush.interval.ms", "1000");
        all.setProperty("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory");
        all.setProperty("schema.history.internal.file.filename", folder.resolve("history").toString());
        return all;
    }

    private static void take(
        List<ChangeEvent<SourceRecord, SourceRecord>> batch,
        DebeziumEngine.RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer,
        String topic, long wanted, CountDownLatch finished) throws InterruptedException {
        begin();
        for (ChangeEvent<SourceRecord, SourceRecord> event : batch) {
            if (event.value().topic().equals(topic)) {
                changes++;
            }
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        if (changes >= wanted && over == 0) {
            over = System.nanoTime();
            finished.countDown();
        }
    }

    public static void main(String[] args) throws Exception {
        String topic = "bench." + args[1];
        long wanted = Long.parseLong(args[3]);
        boolean again = java.nio.file.Files.exists(Path.of(args[2], "offsets"));
        CountDownLatch finished = new CountDownLatch(1);
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine =
            DebeziumEngine.create(KeyValueChangeEventFormat.of(Connect.class, Connect.class))
                .using(properties(args[0], args[1], Path.of(args[2])))
                .using((boolean success, String message, Throwable error) -> {
                    failure = success ? null : error == null ? new Exception(message) : error;
                    finished.countDown();
                })
                .using(new DebeziumEngine.ConnectorCallback() {
                    @Override
                    public void taskStarted() {
                        if (again) {
                            begin();
                        }
                    }
                })
                .notifying((batch, committer) -> take(batch, committer, topic, wanted, finished))
                .build();
        Thread runner = new Thread(engine);
        runner.start();
        finished.await();
        engine.close();
        runner.join();
        if (over == 0) {
            throw new IllegalStateException("Debezium ended early", failure);
        }
        double seconds = (over - ready) / 1e9;
        System.out.printf("{\"seconds\": %.4f, \"changes\": %d, \"changes_per_second\": %.0f}%n",
            seconds, changes, changes / seconds);
    }
}
