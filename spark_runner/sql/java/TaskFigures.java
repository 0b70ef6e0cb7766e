package understudy.sql;

import org.apache.spark.TaskContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Adds a task's records and bytes to Spark's own metrics, which Python cannot set.
 *
 * Spark evaluates it in a thread that has the context of the task.
 */
public class TaskFigures {
    /**
     * Four numbers: records and bytes read since the last call, then all records and bytes
     * written. Returns null.
     */
    public static UTF8String taskFigures(UTF8String text) {
        TaskContext context = TaskContext.get();
        if (context == null || text == null) {
            return null;
        }
        String[] numbers = text.toString().split(" ");
        TaskMetrics metrics = context.taskMetrics();
        metrics.inputMetrics().incRecordsRead(Long.parseLong(numbers[0]));
        metrics.inputMetrics().incBytesRead(Long.parseLong(numbers[1]));
        metrics.outputMetrics().setRecordsWritten(Long.parseLong(numbers[2]));
        metrics.outputMetrics().setBytesWritten(Long.parseLong(numbers[3]));
        return null;
    }
}
