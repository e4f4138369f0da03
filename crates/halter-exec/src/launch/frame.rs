//! What many plans have in common, as bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::LaunchPlan;
use super::encoding::Writer;

/// A plan without its program and arguments, encoded once for many processes
/// that are started alike. Cheap to clone.
///
/// ```
/// use halter_exec::LaunchPlan;
///
/// let mut plan = LaunchPlan::new("/bin/echo", "/").standard_streams();
/// let frame = plan.frame();
/// plan.arguments = vec!["echo".into(), "hello".into()];
/// assert_eq!(frame.encode("/bin/echo".as_ref(), ["echo", "hello"]), plan.encode());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PlanFrame {
    rest: Arc<[u8]>,
}

/// The bytes have values of variables in them.
impl std::fmt::Debug for PlanFrame {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PlanFrame({} bytes)", self.rest.len())
    }
}

impl LaunchPlan {
    /// All of this plan but its program and arguments.
    #[must_use]
    pub fn frame(&self) -> PlanFrame {
        let mut out = Writer::with_room(0);
        self.encode_rest(&mut out);
        PlanFrame {
            rest: out.finish().into(),
        }
    }
}

impl PlanFrame {
    /// How many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.rest.len()
    }

    /// The plan for this program and these arguments, as
    /// [`LaunchPlan::encode`] has it.
    #[must_use]
    pub fn encode<Word: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = Word, IntoIter: ExactSizeIterator>,
    ) -> Vec<u8> {
        let mut out = Writer::with_room(self.rest.len());
        let arguments = arguments.into_iter();
        out.head(program, arguments.len());
        for argument in arguments {
            out.bytes(argument.as_ref().as_bytes());
        }
        out.raw(&self.rest);
        out.finish()
    }
}
