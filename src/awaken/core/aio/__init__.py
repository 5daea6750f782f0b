"""Control of running work: cancellation, inboxes, tasks with an owner, and child processes."""
