package org.apache.kafka.connect.mirror;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What MirrorMaker 2's own classes, unchanged, make of our topics. One line an answer.
 *
 * Arguments: bootstrap servers of source and target, their aliases, one group, a pattern of groups,
 * where the offset syncs are, and of which source topic's partition 0 they are asked up to which
 * offset.
 */
public final class AskMirror {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] args) throws Exception {
        String source = args[2];
        String target = args[3];
        Map<String, Object> there = new HashMap<>(Map.of("bootstrap.servers", args[1]));
        RemoteClusterUtils.translateOffsets(there, source, args[4], PATIENCE)
            .forEach((place, offset) -> tell("one", args[4], place, offset));
        try (MirrorClient client = new MirrorClient(there)) {
            client.remoteConsumerOffsets(Pattern.compile(args[5]), source, PATIENCE).forEach(
                (group, offsets) -> offsets.forEach(
                    (place, offset) -> tell("all", group, place, offset)));
            client.checkpointTopics().forEach(name -> say("checkpoints", name));
            client.heartbeatTopics().forEach(name -> say("heartbeats", name));
            client.remoteTopics(source).forEach(name -> say("remote", name));
            for (String alias : client.upstreamClusters()) {
                say("hops", alias, client.replicationHops(alias));
            }
        }
        Map<String, String> task = new HashMap<>();
        task.put("source.cluster.alias", source);
        task.put("target.cluster.alias", target);
        task.put("source.cluster.bootstrap.servers", args[0]);
        task.put("target.cluster.bootstrap.servers", args[1]);
        task.put("name", "ask");
        task.put("connector.class", MirrorCheckpointConnector.class.getName());
        task.put("task.index", "0");
        task.put("task.assigned.groups", "g");
        task.put("offset-syncs.topic.location", args[6]);
        TopicPartition upstream = new TopicPartition(args[7], 0);
        try (OffsetSyncStore store = new OffsetSyncStore(new MirrorCheckpointTaskConfig(task))) {
            store.start(true);
            for (long offset = 0; offset <= Long.parseLong(args[8]); offset++) {
                OptionalLong found = store.translateDownstream("g", upstream, offset);
                say("sync", offset, found.isPresent() ? found.getAsLong() : "none");
            }
        }
        System.exit(0);
    }

    private static void tell(
            String what, String group, TopicPartition place, OffsetAndMetadata offset) {
        say(what, group, place, offset.offset(), offset.metadata());
    }

    private static void say(Object... words) {
        StringBuilder line = new StringBuilder("answer");
        for (Object word : words) {
            line.append('\t').append(word);
        }
        System.out.println(line);
    }
}
