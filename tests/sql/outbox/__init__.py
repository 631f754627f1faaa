"""Messages that go into the outbox table while no broker takes them."""
