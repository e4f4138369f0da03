//! Output of a job, as a result shows it.

use super::Job;
use crate::context::ToolContext;
use crate::limits::JOB_RESULT_BYTES;
use serde_json::Value;

/// Which output is shown if not all of it fits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// That from the offset on.
    Next,
    /// The last.
    Newest,
}

/// The state of a job and its output from an offset on, within the bound of a
/// result.
pub(super) async fn answer(
    context: &ToolContext,
    job: &Job,
    asked: u64,
    which: Shown,
) -> anyhow::Result<Value> {
    let mut answer = job.row(context);
    let progress = job.running.progress();
    let newest = progress.printed.saturating_sub(JOB_RESULT_BYTES as u64);
    let from = match which {
        Shown::Newest => asked.max(newest),
        Shown::Next => asked,
    };
    let (offset, bytes) = kept_from(job, from).await?;
    let whole = progress.end.is_some() && offset + bytes.len() as u64 >= progress.printed;
    let used = if whole {
        bytes.len()
    } else {
        before_cut(&bytes)
    };
    let text = bytes.get(..used).unwrap_or_default();
    let next = offset + used as u64;
    job.set_shown(next);
    answer.insert("offset".into(), offset.into());
    answer.insert("next_offset".into(), next.into());
    answer.insert("output".into(), String::from_utf8_lossy(text).into());
    if offset > asked {
        let skipped = offset - asked;
        let note = match which {
            Shown::Newest => format!(
                "{skipped} bytes before `offset` are not shown; `read` with offset {asked} shows \
                 what of them is kept"
            ),
            Shown::Next => format!("{skipped} bytes before `offset` are no longer kept"),
        };
        answer.insert("note".into(), note.into());
    }
    Ok(Value::Object(answer))
}

/// What is kept from an offset on, up to a hole or the bound of a result.
async fn kept_from(job: &Job, from: u64) -> anyhow::Result<(u64, Vec<u8>)> {
    let first = job.running.read(from, JOB_RESULT_BYTES).await?;
    let mut bytes = first.bytes;
    while !bytes.is_empty() && bytes.len() < JOB_RESULT_BYTES {
        let end = first.offset + bytes.len() as u64;
        let more = job
            .running
            .read(end, JOB_RESULT_BYTES - bytes.len())
            .await?;
        if more.offset != end || more.bytes.is_empty() {
            break;
        }
        bytes.extend(more.bytes);
    }
    Ok((first.offset, bytes))
}

/// How many bytes come before a character that is cut off at the end.
fn before_cut(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    }
}
