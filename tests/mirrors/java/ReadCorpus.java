import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/** Prints what MirrorMaker 2's classes make of many files: file, flow, connector, name, value. */
public class ReadCorpus {
    public static void main(String[] args) throws Exception {
        for (String name : args) {
            Properties file = new Properties();
            try (var stream = Files.newInputStream(Path.of(name))) {
                file.load(stream);
            }
            Map<String, String> raw = new HashMap<>();
            file.forEach((key, value) -> raw.put((String) key, (String) value));
            String shown = Path.of(name).getFileName().toString();
            if (raw.containsKey("connector.class")) {
                String pair = raw.get("source.cluster.alias") + "->"
                    + raw.getOrDefault("target.cluster.alias", "target");
                for (Connector connector : connectors()) {
                    if (raw.get("connector.class").endsWith(connector.getClass().getSimpleName())) {
                        print(shown, pair, connector, raw);
                    }
                }
            } else {
                read(shown, raw);
            }
        }
    }

    private static List<Connector> connectors() {
        return List.of(new MirrorSourceConnector(), new MirrorCheckpointConnector(),
            new MirrorHeartbeatConnector());
    }

    private static void read(String shown, Map<String, String> raw) {
        try {
            MirrorMakerConfig config = new MirrorMakerConfig(raw);
            for (SourceAndTarget pair : config.clusterPairs()) {
                for (Connector connector : connectors()) {
                    Map<String, String> given =
                        config.connectorBaseConfig(pair, connector.getClass());
                    if ("true".equals(given.get("enabled").trim())) {
                        print(shown, pair.toString(), connector, given);
                    }
                }
            }
        } catch (RuntimeException error) {
            System.out.println(String.join("\t", shown, "", "", "ERROR", "" + error.getMessage()));
        }
    }

    private static void print(String shown, String pair, Connector connector,
            Map<String, String> given) {
        String kind = connector.getClass().getSimpleName();
        try {
            connector.config().parse(given).forEach((name, value) -> {
                if (!name.startsWith("ssl.") && !name.startsWith("sasl.")) {
                    System.out.println(String.join("\t", shown, pair, kind, name, text(value)));
                }
            });
        } catch (ConfigException error) {
            System.out.println(String.join("\t", shown, pair, kind, "ERROR", error.getMessage()));
        }
    }

    private static String text(Object value) {
        if (value instanceof List<?> list) {
            return list.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
        return value instanceof Class<?> found ? found.getName() : String.valueOf(value);
    }
}
