"""What a flow consists of, as frozen dataclasses. Nothing here runs anything."""
