//! What may run, be read and be written: the shell judge, the file door and policy settings.
