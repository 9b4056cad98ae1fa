import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.ChecksumType;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonBinary;
import java.io.File;
import java.io.Serializable;
import java.util.Map;

/**
 * Reads one log file fully: ReadLog FILE [JSON-COLUMN].
 *
 * With a column number its documents are rendered as text too, as binlake does. The library
 * skips checksums; it does not verify them.
 */
public final class ReadLog {
    private static long images;
    private static long jsonBytes;
    private static int jsonColumn = -1;

    private static void image(Serializable[] row) throws Exception {
        images++;
        if (jsonColumn >= 0 && row[jsonColumn] instanceof byte[] document && document.length > 0) {
            jsonBytes += JsonBinary.parseAsString(document).length();
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 1) {
            jsonColumn = Integer.parseInt(args[1]);
        }
        EventDeserializer deserializer = new EventDeserializer();
        deserializer.setChecksumType(ChecksumType.CRC32);
        long started = System.nanoTime();
        long events = 0;
        try (BinaryLogFileReader reader = new BinaryLogFileReader(new File(args[0]), deserializer)) {
            for (Event event; (event = reader.readEvent()) != null; events++) {
                EventData data = event.getData();
                if (data instanceof WriteRowsEventData write) {
                    for (Serializable[] row : write.getRows()) {
                        image(row);
                    }
                } else if (data instanceof UpdateRowsEventData update) {
                    for (Map.Entry<Serializable[], Serializable[]> row : update.getRows()) {
                        image(row.getKey());
                        image(row.getValue());
                    }
                } else if (data instanceof DeleteRowsEventData delete) {
                    for (Serializable[] row : delete.getRows()) {
                        image(row);
                    }
                }
            }
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        System.out.printf(
            "{\"seconds\": %.4f, \"events\": %d, \"images\": %d, \"json_chars\": %d}%n",
            seconds, events, images, jsonBytes);
    }
}
