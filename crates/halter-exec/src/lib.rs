//! Spawn, supervise and kill process trees; bounded output; persistent shells.
