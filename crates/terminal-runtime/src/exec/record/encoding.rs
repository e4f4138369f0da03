//! Records as bytes: a first one for the kind, then the fields in order.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use halter_exec::Environment;

use super::{
    CountRecord, ExecRecord, Grip, Place, Record, SessionRecord, ShellProcessRecord, ShellRecord,
    StopReason,
};
use crate::exec::order::{ExecEnd, ExecId, ExecWhat, Limits, SessionSpec, Usage};
use crate::holder::{CodecError, Reader, Writer};
use crate::session::SessionId;

impl Record {
    pub(in crate::exec) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Session(record) => {
                writer.byte(1);
                write_session(&mut writer, record);
            }
            Self::Shell(record) => {
                writer.byte(2);
                writer.number(record.session.number().into());
                writer.number(record.sequence);
                writer.bytes(&record.state);
            }
            Self::Exec(record) => return record.encode(),
            Self::ShellProcess(record) => {
                writer.byte(4);
                writer.number(record.session.number().into());
                writer.number(record.shell);
                write_grip(&mut writer, &record.grip);
                writer.byte(record.retired.into());
            }
            Self::Count(record) => {
                writer.byte(5);
                writer.number(record.session.number().into());
                writer.number(record.commands);
            }
        }
        writer.finish()
    }

    pub(in crate::exec) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        let record = match reader.byte("a record")? {
            1 => Self::Session(read_session(&mut reader)?),
            2 => Self::Shell(ShellRecord {
                session: read_id(&mut reader)?,
                sequence: reader.number("a sequence")?,
                state: reader.bytes("a shell's state")?.to_vec(),
            }),
            3 => Self::Exec(read_exec(&mut reader)?),
            4 => Self::ShellProcess(ShellProcessRecord {
                session: read_id(&mut reader)?,
                shell: reader.number("a shell")?,
                grip: read_grip(&mut reader)?,
                retired: read_flag(&mut reader)?,
            }),
            5 => Self::Count(CountRecord {
                session: read_id(&mut reader)?,
                commands: reader.number("a number of commands")?,
            }),
            other => return Err(unknown("a record", other)),
        };
        reader.finish()?;
        Ok(record)
    }
}

impl ExecRecord {
    /// As a [`Record`] of its kind.
    pub(in crate::exec) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.reserve(0);
        writer.byte(3);
        write_exec(&mut writer, self);
        writer.finish()
    }
}

fn unknown(what: &'static str, value: u8) -> CodecError {
    CodecError::Unknown {
        what,
        value: value.into(),
    }
}

fn write_session(writer: &mut Writer, record: &SessionRecord) {
    let spec = &record.spec;
    writer.number(record.id.number().into());
    writer.bytes(spec.shell.as_os_str().as_bytes());
    write_environment(writer, &spec.environment);
    writer.bytes(spec.working_dir.as_os_str().as_bytes());
    let chroot = spec.chroot.as_ref().map(|path| path.as_os_str().as_bytes());
    write_optional(writer, chroot);
    write_optional_number(writer, spec.limits.memory_bytes);
    write_optional_number(writer, spec.limits.processes);
    write_optional_number(writer, spec.limits.cpu_seconds);
    write_optional(writer, spec.container_image.as_ref().map(String::as_bytes));
    writer.bytes(&spec.note);
}

fn read_session(reader: &mut Reader<'_>) -> Result<SessionRecord, CodecError> {
    Ok(SessionRecord {
        id: read_id(reader)?,
        spec: SessionSpec {
            shell: read_path(reader)?,
            environment: read_environment(reader)?,
            working_dir: read_path(reader)?,
            chroot: read_optional(reader)?.map(path),
            limits: Limits {
                memory_bytes: read_optional_number(reader)?,
                processes: read_optional_number(reader)?,
                cpu_seconds: read_optional_number(reader)?,
            },
            container_image: read_optional(reader)?.map(text),
            note: Bytes::copy_from_slice(reader.bytes("a note")?),
        },
    })
}

fn write_exec(writer: &mut Writer, record: &ExecRecord) {
    writer.bytes(record.id.as_str().as_bytes());
    writer.number(record.session.number().into());
    write_what(writer, &record.what);
    writer.bytes(&record.note);
    writer.number(record.started_ms);
    writer.number(record.started_us);
    write_optional_number(writer, record.timeout.map(micros));
    match &record.place {
        Place::Shell(key) => {
            writer.byte(1);
            writer.number(*key);
        }
        Place::Process(grip) => {
            writer.byte(2);
            write_grip(writer, grip);
        }
    }
    writer.byte(record.stop.map_or(0, |reason| reason as u8));
    writer.byte(record.input_ended.into());
    writer.byte(record.forgotten.into());
    match &record.end {
        None => writer.byte(0),
        Some(end) => {
            writer.byte(1);
            write_end(writer, end);
        }
    }
}

fn read_exec(reader: &mut Reader<'_>) -> Result<ExecRecord, CodecError> {
    let id = text(reader.bytes("a command's name")?);
    Ok(ExecRecord {
        id: ExecId::parse(&id).ok_or(CodecError::Short {
            what: "a command's name",
        })?,
        session: read_id(reader)?,
        what: read_what(reader)?,
        note: Bytes::copy_from_slice(reader.bytes("a note")?),
        started_ms: reader.number("a time")?,
        started_us: reader.number("a time")?,
        timeout: read_optional_number(reader)?.map(Duration::from_micros),
        place: match reader.byte("a place")? {
            1 => Place::Shell(reader.number("a shell")?),
            2 => Place::Process(read_grip(reader)?),
            other => return Err(unknown("a place", other)),
        },
        stop: match reader.byte("a reason")? {
            0 => None,
            1 => Some(StopReason::TimedOut),
            2 => Some(StopReason::Cancelled),
            other => return Err(unknown("a reason", other)),
        },
        input_ended: read_flag(reader)?,
        forgotten: read_flag(reader)?,
        end: if read_flag(reader)? {
            Some(read_end(reader)?)
        } else {
            None
        },
    })
}

fn write_end(writer: &mut Writer, end: &ExecEnd) {
    writer.optional(end.exit_code.map(i64::from));
    writer.optional(end.signal.map(i64::from));
    writer.byte(end.timed_out.into());
    writer.byte(end.cancelled.into());
    writer.number(micros(end.duration));
    match &end.usage {
        None => writer.byte(0),
        Some(usage) => {
            writer.byte(1);
            writer.number(micros(usage.user_time));
            writer.number(micros(usage.system_time));
            writer.number(usage.max_resident_bytes);
        }
    }
    let cwd = end.cwd.as_ref().map(|path| path.as_os_str().as_bytes());
    write_optional(writer, cwd);
}

fn read_end(reader: &mut Reader<'_>) -> Result<ExecEnd, CodecError> {
    let mut status = || -> Result<Option<i32>, CodecError> {
        let value = reader.optional("a status")?;
        Ok(value.and_then(|value| i32::try_from(value).ok()))
    };
    Ok(ExecEnd {
        exit_code: status()?,
        signal: status()?,
        timed_out: read_flag(reader)?,
        cancelled: read_flag(reader)?,
        duration: Duration::from_micros(reader.number("a time")?),
        usage: if read_flag(reader)? {
            Some(Usage {
                user_time: Duration::from_micros(reader.number("a time")?),
                system_time: Duration::from_micros(reader.number("a time")?),
                max_resident_bytes: reader.number("a size")?,
            })
        } else {
            None
        },
        cwd: read_optional(reader)?.map(path),
    })
}

fn write_what(writer: &mut Writer, what: &ExecWhat) {
    match what {
        ExecWhat::Command(text) => {
            writer.byte(1);
            writer.bytes(text.as_bytes());
        }
        ExecWhat::Fresh(text) => {
            writer.byte(2);
            writer.bytes(text.as_bytes());
        }
        ExecWhat::Argv(words) => {
            writer.byte(3);
            writer.number(words.len() as u64);
            for word in &**words {
                writer.bytes(word.as_bytes());
            }
        }
    }
}

fn read_what(reader: &mut Reader<'_>) -> Result<ExecWhat, CodecError> {
    let what = "a command";
    Ok(match reader.byte(what)? {
        1 => ExecWhat::Command(text(reader.bytes(what)?).into()),
        2 => ExecWhat::Fresh(text(reader.bytes(what)?).into()),
        3 => {
            let count = reader.count(what)?;
            let words = (0..count).map(|_| reader.bytes(what).map(text));
            ExecWhat::Argv(words.collect::<Result<_, _>>()?)
        }
        other => return Err(unknown(what, other)),
    })
}

fn write_grip(writer: &mut Writer, grip: &Grip) {
    let (kind, name) = match grip {
        Grip::Cgroup(name) => (1, name),
        Grip::Marker(value) => (2, value),
    };
    writer.byte(kind);
    writer.bytes(name.as_bytes());
}

fn read_grip(reader: &mut Reader<'_>) -> Result<Grip, CodecError> {
    let kind = reader.byte("a tree")?;
    let name = text(reader.bytes("a tree")?).into();
    match kind {
        1 => Ok(Grip::Cgroup(name)),
        2 => Ok(Grip::Marker(name)),
        other => Err(unknown("a tree", other)),
    }
}

fn write_environment(writer: &mut Writer, environment: &Environment) {
    writer.number(environment.len() as u64);
    for (name, value) in environment.iter() {
        writer.bytes(name.as_bytes());
        writer.bytes(value.as_bytes());
    }
}

fn read_environment(reader: &mut Reader<'_>) -> Result<Environment, CodecError> {
    let what = "a variable";
    let mut environment = Environment::new();
    for _ in 0..reader.count(what)? {
        let name = OsString::from_vec(reader.bytes(what)?.to_vec());
        let value = OsString::from_vec(reader.bytes(what)?.to_vec());
        environment.set(name, value);
    }
    Ok(environment)
}

fn write_optional(writer: &mut Writer, value: Option<&[u8]>) {
    match value {
        None => writer.byte(0),
        Some(value) => {
            writer.byte(1);
            writer.bytes(value);
        }
    }
}

fn read_optional<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, CodecError> {
    if read_flag(reader)? {
        reader.bytes("a text").map(Some)
    } else {
        Ok(None)
    }
}

fn write_optional_number(writer: &mut Writer, value: Option<u64>) {
    writer.byte(value.is_some().into());
    if let Some(value) = value {
        writer.number(value);
    }
}

fn read_optional_number(reader: &mut Reader<'_>) -> Result<Option<u64>, CodecError> {
    if read_flag(reader)? {
        reader.number("a number").map(Some)
    } else {
        Ok(None)
    }
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool, CodecError> {
    match reader.byte("a flag")? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(unknown("a flag", other)),
    }
}

fn read_id(reader: &mut Reader<'_>) -> Result<SessionId, CodecError> {
    let number = reader.number("a session")?;
    let number = u32::try_from(number).map_err(|_| CodecError::Unknown {
        what: "a session",
        value: number,
    })?;
    Ok(SessionId::from_number(number))
}

fn read_path(reader: &mut Reader<'_>) -> Result<PathBuf, CodecError> {
    reader.bytes("a path").map(path)
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionRecord {
        SessionRecord {
            id: SessionId::from_number(7),
            spec: SessionSpec {
                shell: "/bin/bash".into(),
                environment: Environment::new().with("A", "x y").with("B", ""),
                working_dir: "/tmp".into(),
                chroot: Some("/srv".into()),
                limits: Limits {
                    memory_bytes: Some(1 << 40),
                    processes: None,
                    cpu_seconds: Some(3),
                },
                container_image: Some("image".to_owned()),
                note: Bytes::from_static(b"note"),
            },
        }
    }

    fn exec(what: ExecWhat, place: Place, end: Option<ExecEnd>) -> ExecRecord {
        ExecRecord {
            id: ExecId::parse("e-1").unwrap(),
            session: SessionId::from_number(u32::MAX),
            what,
            note: Bytes::new(),
            started_ms: 1,
            started_us: u64::MAX,
            timeout: Some(Duration::from_millis(1500)),
            place,
            stop: Some(StopReason::Cancelled),
            input_ended: true,
            forgotten: false,
            end,
        }
    }

    fn records() -> Vec<Record> {
        let end = ExecEnd {
            exit_code: None,
            signal: Some(9),
            timed_out: false,
            cancelled: true,
            duration: Duration::from_micros(17),
            usage: Some(Usage {
                user_time: Duration::from_micros(1),
                system_time: Duration::from_micros(2),
                max_resident_bytes: 3,
            }),
            cwd: Some("/tmp/ä".into()),
        };
        let argv = ExecWhat::Argv(["a".to_owned(), String::new()].into());
        let grip = Grip::Cgroup("e1".into());
        vec![
            Record::Session(session()),
            Record::Count(CountRecord {
                session: SessionId::from_number(1),
                commands: 300,
            }),
            Record::Shell(ShellRecord {
                session: SessionId::from_number(0),
                sequence: 7,
                state: vec![0, 255],
            }),
            Record::ShellProcess(ShellProcessRecord {
                session: SessionId::from_number(0),
                shell: 5,
                grip: Grip::Marker("m".into()),
                retired: true,
            }),
            Record::Exec(exec(argv, Place::Process(grip), Some(end))),
            Record::Exec(exec(
                ExecWhat::Command("ls".into()),
                Place::Shell(u64::MAX),
                None,
            )),
            Record::Exec(exec(ExecWhat::Fresh("".into()), Place::Shell(0), None)),
        ]
    }

    #[test]
    fn records_survive_their_encoding() {
        for record in records() {
            let bytes = record.encode();
            let found = Record::decode(&bytes).unwrap();
            assert_eq!(found.encode(), bytes);
            assert_eq!(format!("{found:?}"), format!("{record:?}"));
        }
    }

    #[test]
    fn a_cut_record_is_refused_and_any_change_is_harmless() {
        for record in records() {
            let bytes = record.encode();
            for end in 0..bytes.len() {
                assert!(Record::decode(&bytes[..end]).is_err());
            }
            for place in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[place] ^= 0x55;
                let _ = Record::decode(&changed);
            }
        }
    }
}
