"""The paper's data sets: distributions where only counts are needed, and Spark DataFrames that follow them."""
