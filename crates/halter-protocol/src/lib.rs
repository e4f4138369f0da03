//! The vocabulary of Halter: ids, messages, events, tools, usage, and the fold of events into state.
