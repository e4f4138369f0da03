//! The bytes of what daemon and holder say.

mod reply;

use super::super::codec::{CodecError, Reader, Writer};
use super::{Birth, Request, Role, Source, Start, UnitKind};

impl UnitKind {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        match reader.byte("the kind of a unit")? {
            1 => Ok(Self::Output),
            2 => Ok(Self::Input),
            3 => Ok(Self::File),
            4 => Ok(Self::Terminal),
            5 => Ok(Self::Journal),
            other => Err(CodecError::Unknown {
                what: "the kind of a unit",
                value: other.into(),
            }),
        }
    }
}

impl Request {
    /// Several as the bytes of one message: either all of them happen or
    /// none.
    #[must_use]
    pub fn encode_all<'a>(requests: impl IntoIterator<Item = &'a Self>) -> Vec<u8> {
        let mut writer = Writer::new();
        for request in requests {
            writer.reserve(request.payload_bytes());
            request.encode(&mut writer);
        }
        writer.finish()
    }

    /// How many bytes it carries for others.
    fn payload_bytes(&self) -> usize {
        match self {
            Self::Spawn(birth) => birth.record.len() + birth.plan.len(),
            Self::Tell { lines, .. } => lines.len(),
            _ => 0,
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Hello { version } => {
                writer.byte(1);
                writer.number(*version);
            }
            Self::Make { kind, count } => {
                writer.byte(2);
                writer.byte(*kind as u8);
                writer.number(*count);
            }
            Self::Give { id, kind } => {
                writer.byte(3);
                writer.number(*id);
                writer.byte(*kind as u8);
            }
            Self::Put { key, record, units } => {
                writer.byte(4);
                writer.number(*key);
                writer.bytes(record);
                write_numbers(writer, units);
            }
            Self::Spawn(birth) => {
                writer.byte(5);
                writer.number(birth.key);
                writer.bytes(&birth.record);
                write_numbers(writer, &birth.units);
                writer.byte(birth.role as u8);
                write_sources(writer, &birth.slots);
                writer.bytes(&birth.plan);
            }
            Self::Tell { key, lines, start } => {
                writer.byte(6);
                writer.number(*key);
                writer.bytes(lines);
                write_start(writer, start.as_ref());
            }
            Self::Settle { key } => {
                writer.byte(7);
                writer.number(*key);
            }
            Self::Forget { key } => {
                writer.byte(8);
                writer.number(*key);
            }
            Self::Drop { units } => {
                writer.byte(9);
                write_numbers(writer, units);
            }
            Self::Signal { key, signal } => {
                writer.byte(10);
                writer.number(*key);
                writer.signed((*signal).into());
            }
            Self::Show { key } => {
                writer.byte(11);
                writer.number(*key);
            }
            Self::CloseInput { key } => {
                writer.byte(12);
                writer.number(*key);
            }
            Self::End => writer.byte(13),
            Self::ForgetGroups => writer.byte(14),
            Self::Keep { key, units } => {
                writer.byte(15);
                writer.number(*key);
                write_numbers(writer, units);
            }
            Self::Move {
                from,
                key,
                record,
                units,
                working,
            } => {
                writer.byte(16);
                writer.number(*from);
                writer.number(*key);
                writer.bytes(record);
                write_numbers(writer, units);
                writer.byte((*working).into());
            }
            Self::Recycle { key, written } => {
                writer.byte(17);
                writer.number(*key);
                writer.byte((*written).into());
            }
        }
    }

    /// The requests of one message.
    ///
    /// # Errors
    /// If the bytes are not requests.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, CodecError> {
        let mut reader = Reader::new(bytes);
        let mut requests = Vec::new();
        while !reader.is_at_end() {
            requests.push(Self::decode(&mut reader)?);
        }
        Ok(requests)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(match reader.byte("the kind of a request")? {
            1 => Self::Hello {
                version: reader.number("the version")?,
            },
            2 => Self::Make {
                kind: UnitKind::decode(reader)?,
                count: reader.number("the number of units")?,
            },
            3 => Self::Give {
                id: reader.number("a unit")?,
                kind: UnitKind::decode(reader)?,
            },
            4 => Self::Put {
                key: reader.number("a slot")?,
                record: reader.bytes("a record")?.to_vec(),
                units: read_numbers(reader)?,
            },
            5 => Self::Spawn(Birth {
                key: reader.number("a slot")?,
                record: reader.bytes("a record")?.to_vec(),
                units: read_numbers(reader)?,
                role: read_role(reader)?,
                slots: read_sources(reader)?,
                plan: reader.bytes("a plan")?.to_vec(),
            }),
            6 => Self::Tell {
                key: reader.number("a slot")?,
                lines: reader.bytes("lines")?.to_vec(),
                start: read_start(reader)?,
            },
            7 => Self::Settle {
                key: reader.number("a slot")?,
            },
            8 => Self::Forget {
                key: reader.number("a slot")?,
            },
            9 => Self::Drop {
                units: read_numbers(reader)?,
            },
            10 => Self::Signal {
                key: reader.number("a slot")?,
                signal: narrow(reader.signed("a signal")?, "a signal")?,
            },
            11 => Self::Show {
                key: reader.number("a slot")?,
            },
            12 => Self::CloseInput {
                key: reader.number("a slot")?,
            },
            13 => Self::End,
            14 => Self::ForgetGroups,
            15 => Self::Keep {
                key: reader.number("a slot")?,
                units: read_numbers(reader)?,
            },
            16 => Self::Move {
                from: reader.number("a slot")?,
                key: reader.number("a slot")?,
                record: reader.bytes("a record")?.to_vec(),
                units: read_numbers(reader)?,
                working: reader.byte("a flag")? != 0,
            },
            17 => Self::Recycle {
                key: reader.number("a slot")?,
                written: reader.byte("a flag")? != 0,
            },
            other => {
                return Err(CodecError::Unknown {
                    what: "the kind of a request",
                    value: other.into(),
                });
            }
        })
    }
}

fn narrow<Narrow: TryFrom<i64>>(value: i64, what: &'static str) -> Result<Narrow, CodecError> {
    Narrow::try_from(value).map_err(|_| CodecError::Unknown {
        what,
        value: value.unsigned_abs(),
    })
}

fn read_pid(reader: &mut Reader<'_>) -> Result<i32, CodecError> {
    narrow(reader.signed("a process number")?, "a process number")
}

fn write_numbers(writer: &mut Writer, numbers: &[u64]) {
    writer.number(numbers.len() as u64);
    for number in numbers {
        writer.number(*number);
    }
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Vec<u64>, CodecError> {
    let count = reader.count("a list of units")?;
    (0..count).map(|_| reader.number("a unit")).collect()
}

fn write_sources(writer: &mut Writer, sources: &[Source]) {
    writer.number(sources.len() as u64);
    for source in sources {
        match source {
            Source::Null => writer.byte(0),
            Source::Part { unit, part } => {
                writer.byte(1);
                writer.byte(*unit);
                writer.byte(*part);
            }
        }
    }
}

fn read_sources(reader: &mut Reader<'_>) -> Result<Vec<Source>, CodecError> {
    let what = "a descriptor";
    let count = reader.count(what)?;
    let mut sources = Vec::with_capacity(count);
    for _ in 0..count {
        sources.push(match reader.byte(what)? {
            0 => Source::Null,
            1 => Source::Part {
                unit: reader.byte(what)?,
                part: reader.byte(what)?,
            },
            other => {
                return Err(CodecError::Unknown {
                    what,
                    value: other.into(),
                });
            }
        });
    }
    Ok(sources)
}

fn read_role(reader: &mut Reader<'_>) -> Result<Role, CodecError> {
    match reader.byte("a role")? {
        1 => Ok(Role::Command),
        2 => Ok(Role::Shell),
        other => Err(CodecError::Unknown {
            what: "a role",
            value: other.into(),
        }),
    }
}

fn write_start(writer: &mut Writer, start: Option<&Start>) {
    let Some(Start { key, record, units }) = start else {
        writer.byte(0);
        return;
    };
    writer.byte(1);
    writer.number(*key);
    writer.bytes(record);
    write_numbers(writer, units);
}

fn read_start(reader: &mut Reader<'_>) -> Result<Option<Start>, CodecError> {
    match reader.byte("a command")? {
        0 => Ok(None),
        1 => Ok(Some(Start {
            key: reader.number("a slot")?,
            record: reader.bytes("a record")?.to_vec(),
            units: read_numbers(reader)?,
        })),
        other => Err(CodecError::Unknown {
            what: "a command",
            value: other.into(),
        }),
    }
}

#[cfg(test)]
mod tests;
