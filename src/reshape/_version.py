"""The version, readable where the package is not installed but shipped: on executors."""

VERSION = "0.1.0.dev0"
