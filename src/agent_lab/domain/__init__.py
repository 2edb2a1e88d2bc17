"""Pure decisions: messages, the conversation, payloads, dialects. No asyncio, no I/O, no clock."""
