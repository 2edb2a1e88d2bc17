"""Time and tasks: the journal, the gate, the queues, the workers and the runtime that owns them."""
