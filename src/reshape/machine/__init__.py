"""This machine: Java, resources, a trial of Spark, a local session."""
