"""What runs in the driver: launching a flow, its attempts, and the body of its brains."""
