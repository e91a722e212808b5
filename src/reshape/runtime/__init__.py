"""What stands between reshape and the machine that Spark runs on."""
