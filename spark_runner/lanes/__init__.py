from spark_runner import compiled

compiled.use()
