"""What sends rows to hosts: source tasks, and the routers of operators."""
