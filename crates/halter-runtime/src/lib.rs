//! The turn machine and its drivers, prompt assembly and session ownership.
