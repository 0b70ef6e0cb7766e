import java.io.FileInputStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/** Prints what MirrorMaker 2's own classes make of a file: one line a fact. */
public class ReadMm2 {
    public static void main(String[] args) throws Exception {
        Properties file = new Properties();
        try (FileInputStream stream = new FileInputStream(args[0])) {
            file.load(stream);
        }
        Map<String, String> raw = new HashMap<>();
        file.forEach((key, value) -> raw.put((String) key, (String) value));
        MirrorMakerConfig config = new MirrorMakerConfig(raw);
        for (SourceAndTarget pair : config.clusterPairs()) {
            Map<String, String> worker = config.workerConfig(pair);
            for (Connector connector : List.of(new MirrorSourceConnector(),
                    new MirrorCheckpointConnector(), new MirrorHeartbeatConnector())) {
                Map<String, String> given = config.connectorBaseConfig(pair, connector.getClass());
                for (ConfigValue value : connector.config().validate(given)) {
                    for (String message : value.errorMessages()) {
                        System.out.println("error " + pair + " " + value.name() + " " + message);
                    }
                }
                if (connector instanceof MirrorSourceConnector) {
                    new TreeMap<>(given).forEach((key, value) ->
                        System.out.println("connector " + pair + " " + key + "=" + value));
                }
            }
            new TreeMap<>(worker).forEach((key, value) ->
                System.out.println("worker " + pair + " " + key + "=" + value));
        }
    }
}
