//! A plan as bytes, for the program that is to carry it out.
//!
//! A version, then the fields in order. Numbers are unsigned LEB128; texts
//! and lists have their length before them; what may be absent has a byte
//! that says so.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{DescriptorMapping, LaunchPlan, Resource, Rlimit};
use crate::limits::MAX_PLAN_BYTES;
use crate::sandbox::{FileAccess, FileRule};

const VERSION: u8 = 1;

/// Most programs and their arguments fit into so many bytes.
const ROOM: usize = 512;

/// Why bytes are no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Another version of this crate wrote it.
    #[error(
        "the plan has version {found}, this program reads {VERSION}; run the same version on both sides"
    )]
    Version {
        /// What it says.
        found: u8,
    },
    /// It ends early or goes on after its end.
    #[error("the plan is cut or has bytes after its end")]
    Length,
    /// A field holds something that is not one of its values.
    #[error("the plan's {field} is none")]
    Value {
        /// Which.
        field: &'static str,
    },
    /// It is larger than a plan may be.
    #[error("the plan has {actual} bytes, the limit is {MAX_PLAN_BYTES}")]
    TooLarge {
        /// Its size.
        actual: usize,
    },
}

impl LaunchPlan {
    /// The plan as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::with_room(0);
        out.head(&self.program, self.arguments.len());
        for argument in &self.arguments {
            out.bytes(argument.as_bytes());
        }
        self.encode_rest(&mut out);
        out.finish()
    }

    /// What follows the program and the arguments.
    pub(super) fn encode_rest(&self, out: &mut Writer) {
        out.number(self.environment.len() as u64);
        for (name, value) in self.environment.iter() {
            out.bytes(name.as_bytes());
            out.bytes(value.as_bytes());
        }
        out.path(&self.cwd);
        out.list(&self.descriptors, |out, mapping| {
            out.number(mapping.slot.into());
            out.number(u64::from(mapping.target.cast_unsigned()));
        });
        out.option(self.terminal.as_ref(), |out, slot| {
            out.number(u64::from(*slot));
        });
        out.option(self.cgroup.as_ref(), |out, path| out.path(path));
        out.list(&self.limit_groups, |out, path| out.path(path));
        out.list(&self.rlimits, |out, limit| {
            out.0.push(resource_number(limit.resource));
            out.number(limit.value);
        });
        out.option(self.root.as_ref(), |out, path| out.path(path));
        out.0.push(u8::from(self.no_new_privileges));
        out.option(self.file_rules.as_ref(), |out, rules| {
            out.list(rules, |out, rule| {
                out.path(&rule.path);
                out.0.push(access_number(rule.access));
            });
        });
    }

    /// The plan that was encoded as these bytes.
    ///
    /// # Errors
    /// If they are no plan of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, PlanError> {
        let parts = PlanParts::of(bytes)?;
        let mut plan = Self::decode_rest(parts.rest)?;
        plan.program = parts.program.into();
        plan.arguments = parts.arguments.into_iter().map(OsStr::to_owned).collect();
        Ok(plan)
    }

    /// The plan without its program and arguments.
    pub(super) fn decode_rest(rest: &[u8]) -> Result<Self, PlanError> {
        let mut input = Reader(rest);
        // Fields are read in the order they are written here.
        let plan = Self {
            program: PathBuf::new(),
            arguments: Vec::new(),
            environment: input
                .list(|input| Ok((input.text()?, input.text()?)))?
                .into_iter()
                .collect(),
            cwd: input.path()?,
            descriptors: input.list(|input| {
                Ok(DescriptorMapping {
                    slot: input.small("slot")?,
                    target: input.small::<u32>("descriptor")?.cast_signed(),
                })
            })?,
            terminal: input.option(|input| input.small("terminal"))?,
            cgroup: input.option(Reader::path)?,
            limit_groups: input.list(Reader::path)?,
            rlimits: input.list(|input| {
                Ok(Rlimit {
                    resource: resource(input.byte()?)?,
                    value: input.number()?,
                })
            })?,
            root: input.option(Reader::path)?,
            no_new_privileges: input.flag()?,
            file_rules: input.option(|input| {
                input.list(|input| {
                    Ok(FileRule {
                        path: input.path()?,
                        access: access(input.byte()?)?,
                    })
                })
            })?,
        };
        if !input.0.is_empty() {
            return Err(PlanError::Length);
        }
        Ok(plan)
    }
}

/// A plan as bytes, its parts still as they came.
pub(super) struct PlanParts<'a> {
    pub program: &'a OsStr,
    pub arguments: Vec<&'a OsStr>,
    /// The same for all processes that are started alike.
    pub rest: &'a [u8],
}

impl<'a> PlanParts<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, PlanError> {
        if bytes.len() > MAX_PLAN_BYTES {
            return Err(PlanError::TooLarge {
                actual: bytes.len(),
            });
        }
        let mut input = Reader(bytes);
        let found = input.byte()?;
        if found != VERSION {
            return Err(PlanError::Version { found });
        }
        Ok(Self {
            program: input.text()?,
            arguments: input.list(Reader::text)?,
            rest: input.0,
        })
    }
}

const RESOURCES: [Resource; 6] = [
    Resource::AddressSpace,
    Resource::CoreBytes,
    Resource::CpuSeconds,
    Resource::FileBytes,
    Resource::OpenFiles,
    Resource::Processes,
];

const ACCESSES: [FileAccess; 4] = [
    FileAccess::Read,
    FileAccess::Execute,
    FileAccess::Write,
    FileAccess::All,
];

fn position<Value: PartialEq>(of: &Value, values: &[Value]) -> u8 {
    let found = values.iter().position(|value| value == of);
    found
        .and_then(|index| u8::try_from(index).ok())
        .unwrap_or(u8::MAX)
}

fn resource_number(resource: Resource) -> u8 {
    position(&resource, &RESOURCES)
}

fn resource(number: u8) -> Result<Resource, PlanError> {
    let found = RESOURCES.get(usize::from(number)).copied();
    found.ok_or(PlanError::Value { field: "resource" })
}

fn access_number(access: FileAccess) -> u8 {
    position(&access, &ACCESSES)
}

fn access(number: u8) -> Result<FileAccess, PlanError> {
    let found = ACCESSES.get(usize::from(number)).copied();
    found.ok_or(PlanError::Value { field: "access" })
}

pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// With room for so many bytes, and some more.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes + ROOM))
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// The beginning of a plan; its arguments follow.
    pub(super) fn head(&mut self, program: &Path, arguments: usize) {
        self.0.push(VERSION);
        self.path(program);
        self.number(arguments as u64);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn list<Item>(&mut self, items: &[Item], write: impl Fn(&mut Self, &Item)) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn option<Item>(&mut self, item: Option<&Item>, write: impl Fn(&mut Self, &Item)) {
        self.0.push(u8::from(item.is_some()));
        if let Some(item) = item {
            write(self, item);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PlanError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(PlanError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, PlanError> {
        self.take(1)?.first().copied().ok_or(PlanError::Length)
    }

    fn number(&mut self) -> Result<u64, PlanError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(PlanError::Value { field: "number" })
    }

    fn small<Number: TryFrom<u64>>(&mut self, field: &'static str) -> Result<Number, PlanError> {
        Number::try_from(self.number()?).map_err(|_| PlanError::Value { field })
    }

    fn text(&mut self) -> Result<&'a OsStr, PlanError> {
        let length = self.small("length")?;
        Ok(OsStr::from_bytes(self.take(length)?))
    }

    fn path(&mut self) -> Result<PathBuf, PlanError> {
        self.text().map(PathBuf::from)
    }

    fn flag(&mut self) -> Result<bool, PlanError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(PlanError::Value { field: "flag" }),
        }
    }

    /// Room is made as items are read: a forged length costs nothing.
    fn list<Item>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<Item, PlanError>,
    ) -> Result<Vec<Item>, PlanError> {
        let length = self.number()?;
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn option<Item>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Item, PlanError>,
    ) -> Result<Option<Item>, PlanError> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = OsString> {
        vec(any::<u8>(), 0..40).prop_map(OsString::from_vec)
    }

    fn path() -> impl Strategy<Value = PathBuf> {
        text().prop_map(PathBuf::from)
    }

    fn mapping() -> impl Strategy<Value = DescriptorMapping> {
        (any::<u16>(), any::<i32>()).prop_map(|(slot, target)| DescriptorMapping { slot, target })
    }

    fn rlimit() -> impl Strategy<Value = Rlimit> {
        (0..RESOURCES.len(), any::<u64>()).prop_map(|(index, value)| Rlimit {
            resource: RESOURCES[index],
            value,
        })
    }

    fn rule() -> impl Strategy<Value = FileRule> {
        (path(), 0..ACCESSES.len()).prop_map(|(path, index)| FileRule {
            path,
            access: ACCESSES[index],
        })
    }

    fn plan() -> impl Strategy<Value = LaunchPlan> {
        let what = (
            path(),
            vec(text(), 0..5),
            vec((text(), text()), 0..5),
            path(),
        );
        let handles = (vec(mapping(), 0..5), option::of(any::<u16>()));
        let bounds = (option::of(path()), vec(path(), 0..3), vec(rlimit(), 0..4));
        let sandbox = (
            option::of(path()),
            any::<bool>(),
            option::of(vec(rule(), 0..4)),
        );
        (what, handles, bounds, sandbox).prop_map(|(what, handles, bounds, sandbox)| LaunchPlan {
            program: what.0,
            arguments: what.1,
            environment: what.2.into_iter().collect(),
            cwd: what.3,
            descriptors: handles.0,
            terminal: handles.1,
            cgroup: bounds.0,
            limit_groups: bounds.1,
            rlimits: bounds.2,
            root: sandbox.0,
            no_new_privileges: sandbox.1,
            file_rules: sandbox.2,
        })
    }

    proptest! {
        #[test]
        fn a_plan_survives_its_encoding(plan in plan()) {
            prop_assert_eq!(LaunchPlan::decode(&plan.encode()), Ok(plan));
        }

        #[test]
        fn a_cut_plan_is_refused_at_every_length(plan in plan(), cut in any::<prop::sample::Index>()) {
            let bytes = plan.encode();
            prop_assert!(LaunchPlan::decode(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn bytes_after_the_end_are_refused(plan in plan(), more in vec(any::<u8>(), 1..4)) {
            let mut bytes = plan.encode();
            bytes.extend(more);
            prop_assert_eq!(LaunchPlan::decode(&bytes), Err(PlanError::Length));
        }

        #[test]
        fn any_bytes_are_a_plan_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
            let _ = LaunchPlan::decode(&bytes);
            let mut versioned = vec![VERSION];
            versioned.extend(bytes);
            let _ = LaunchPlan::decode(&versioned);
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = LaunchPlan::default().encode();
        bytes[0] = 2;
        assert_eq!(
            LaunchPlan::decode(&bytes),
            Err(PlanError::Version { found: 2 })
        );
    }

    #[test]
    fn the_largest_plan_is_read_and_one_byte_more_is_not() {
        let mut plan = LaunchPlan::default();
        let overhead = plan.encode().len() + 3;
        plan.program = OsString::from_vec(vec![b'x'; MAX_PLAN_BYTES - overhead]).into();
        let mut bytes = plan.encode();
        assert_eq!(bytes.len(), MAX_PLAN_BYTES);
        assert_eq!(LaunchPlan::decode(&bytes), Ok(plan));
        bytes.push(0);
        let actual = MAX_PLAN_BYTES + 1;
        assert_eq!(
            LaunchPlan::decode(&bytes),
            Err(PlanError::TooLarge { actual })
        );
    }
}
