"""Control of running work: cancellation, inboxes, and asyncio tasks with an owner."""
