//! What the holder says.

use halter_exec::LaunchFailure;

use super::{UnitKind, narrow, read_pid};
use crate::holder::codec::{CodecError, Reader, Writer};
use crate::holder::message::{Exit, ProcessState, Reply, Unit};

impl Reply {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Welcome { version, pid } => {
                writer.byte(1);
                writer.number(*version);
                writer.signed((*pid).into());
            }
            Self::Refused { version } => {
                writer.byte(2);
                writer.number(*version);
            }
            Self::Slot {
                key,
                record,
                units,
                process,
            } => {
                writer.byte(3);
                writer.number(*key);
                writer.bytes(record);
                write_units(&mut writer, units);
                write_process(&mut writer, process);
            }
            Self::Ready => writer.byte(4),
            Self::Units { kind, units } => {
                writer.byte(5);
                writer.byte(*kind as u8);
                write_units(&mut writer, units);
            }
            Self::Started { key, pid } => {
                writer.byte(6);
                writer.number(*key);
                writer.signed((*pid).into());
            }
            Self::Exited { key, exit } => {
                writer.byte(7);
                writer.number(*key);
                write_exit(&mut writer, exit);
            }
            Self::Failed { key, failure } => {
                writer.byte(8);
                writer.number(*key);
                write_failure(&mut writer, *failure);
            }
        }
        writer.finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are not a reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        let reply = match reader.byte("the kind of a reply")? {
            1 => Self::Welcome {
                version: reader.number("the version")?,
                pid: read_pid(&mut reader)?,
            },
            2 => Self::Refused {
                version: reader.number("the version")?,
            },
            3 => Self::Slot {
                key: reader.number("a slot")?,
                record: reader.bytes("a record")?.to_vec(),
                units: read_units(&mut reader)?,
                process: read_process(&mut reader)?,
            },
            4 => Self::Ready,
            5 => Self::Units {
                kind: UnitKind::decode(&mut reader)?,
                units: read_units(&mut reader)?,
            },
            6 => Self::Started {
                key: reader.number("a slot")?,
                pid: read_pid(&mut reader)?,
            },
            7 => Self::Exited {
                key: reader.number("a slot")?,
                exit: read_exit(&mut reader)?,
            },
            8 => Self::Failed {
                key: reader.number("a slot")?,
                failure: read_failure(&mut reader)?,
            },
            other => {
                return Err(CodecError::Unknown {
                    what: "the kind of a reply",
                    value: other.into(),
                });
            }
        };
        reader.finish()?;
        Ok(reply)
    }
}

fn write_units(writer: &mut Writer, units: &[Unit]) {
    writer.number(units.len() as u64);
    for unit in units {
        writer.number(unit.id);
        writer.byte(unit.kind as u8);
        writer.number(unit.numbers.len() as u64);
        for number in &unit.numbers {
            writer.signed((*number).into());
        }
    }
}

fn read_units(reader: &mut Reader<'_>) -> Result<Vec<Unit>, CodecError> {
    let what = "a descriptor's number";
    let count = reader.count("a list of units")?;
    let mut units = Vec::with_capacity(count);
    for _ in 0..count {
        let id = reader.number("a unit")?;
        let kind = UnitKind::decode(reader)?;
        let parts = reader.count(what)?;
        let numbers = (0..parts)
            .map(|_| narrow(reader.signed(what)?, what))
            .collect::<Result<_, _>>()?;
        units.push(Unit { id, kind, numbers });
    }
    Ok(units)
}

fn write_exit(writer: &mut Writer, exit: &Exit) {
    writer.optional(exit.code.map(i64::from));
    writer.optional(exit.signal.map(i64::from));
    writer.number(exit.user_us);
    writer.number(exit.system_us);
    writer.number(exit.max_resident_bytes);
    writer.number(exit.at_us);
}

fn read_exit(reader: &mut Reader<'_>) -> Result<Exit, CodecError> {
    let mut status = |what| {
        let value = reader.optional(what)?;
        value.map(|value| narrow(value, what)).transpose()
    };
    Ok(Exit {
        code: status("an exit code")?,
        signal: status("a signal")?,
        user_us: reader.number("a time")?,
        system_us: reader.number("a time")?,
        max_resident_bytes: reader.number("a size")?,
        at_us: reader.number("a time")?,
    })
}

fn write_failure(writer: &mut Writer, failure: LaunchFailure) {
    writer.bytes(&failure.to_bytes());
}

fn read_failure(reader: &mut Reader<'_>) -> Result<LaunchFailure, CodecError> {
    let what = "a failed launch";
    let bytes = reader.bytes(what)?;
    let bytes = bytes.try_into().map_err(|_| CodecError::Short { what })?;
    LaunchFailure::from_bytes(bytes).ok_or(CodecError::Unknown { what, value: 0 })
}

fn write_process(writer: &mut Writer, process: &ProcessState) {
    match process {
        ProcessState::Absent => writer.byte(0),
        ProcessState::Running { pid } => {
            writer.byte(1);
            writer.signed((*pid).into());
        }
        ProcessState::Exited { pid, exit } => {
            writer.byte(2);
            writer.signed((*pid).into());
            write_exit(writer, exit);
        }
        ProcessState::Failed(failure) => {
            writer.byte(3);
            write_failure(writer, *failure);
        }
    }
}

fn read_process(reader: &mut Reader<'_>) -> Result<ProcessState, CodecError> {
    match reader.byte("the state of a process")? {
        0 => Ok(ProcessState::Absent),
        1 => Ok(ProcessState::Running {
            pid: read_pid(reader)?,
        }),
        2 => Ok(ProcessState::Exited {
            pid: read_pid(reader)?,
            exit: read_exit(reader)?,
        }),
        3 => read_failure(reader).map(ProcessState::Failed),
        other => Err(CodecError::Unknown {
            what: "the state of a process",
            value: other.into(),
        }),
    }
}
