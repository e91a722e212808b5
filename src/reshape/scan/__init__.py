"""Parquet read by hosts as Arrow: Spark plans what is read, Arrow reads it, and the rows are Spark's."""
