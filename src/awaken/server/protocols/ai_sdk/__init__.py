"""The AI SDK's UI message stream, as `useChat` of the versions 6 and 7 reads it."""
