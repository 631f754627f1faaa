"""Each call of the asyncio client, cancelled at each of its steps."""
