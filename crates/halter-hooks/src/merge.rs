//! How the answers of several hooks become one verdict.
//!
//! Any block blocks, the strongest permission wins, texts are concatenated in
//! the order the hooks ran. Of two rewrites of the same thing the earlier
//! priority wins and the loser is told; equal priorities are a conflict, unless
//! they agree.

use crate::event::HookEventName;
use crate::file::OnFailure;
use crate::limits::{MAX_REWRITE_BYTES, MAX_TEXT_BYTES, MAX_TEXTS_PER_ANSWER};
use crate::registry::{RegisteredHook, RunOrder};
use crate::response::{HookOutput, PermissionDecision};
use crate::verdict::{HookVerdict, RewriteConflict, RewriteTarget};
use halter_protocol::{HookEntryKind, HookRunEntry, HookRunStatus};
use serde_json::Value;
use std::io;

/// How one handler ended.
#[derive(Debug)]
pub(crate) enum HandlerEnd {
    /// With what the run reports besides.
    Answered(Box<HookOutput>, Vec<HookRunEntry>),
    Failed(String),
    Cancelled,
}

/// How one run is reported.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub status: HookRunStatus,
    pub entries: Vec<HookRunEntry>,
}

impl Report {
    fn say(&mut self, kind: HookEntryKind, text: impl Into<String>) {
        self.entries.push(HookRunEntry {
            kind,
            text: text.into(),
        });
    }
}

#[derive(Debug)]
struct Rewrite {
    hook_id: String,
    order: RunOrder,
    value: Value,
}

/// Collects the answers of one event's hooks.
#[derive(Debug)]
pub(crate) struct Merger {
    event: HookEventName,
    /// What it collects decides nothing.
    beside: bool,
    verdict: HookVerdict,
    block_reasons: Vec<String>,
    input: Option<Rewrite>,
    output: Option<Rewrite>,
}

impl Merger {
    pub fn new(event: HookEventName) -> Self {
        Self {
            event,
            beside: false,
            verdict: HookVerdict::default(),
            block_reasons: Vec::new(),
            input: None,
            output: None,
        }
    }

    /// For handlers that run beside the turn: what they answer is reported and
    /// has no effect.
    pub fn beside(event: HookEventName) -> Self {
        Self {
            beside: true,
            ..Self::new(event)
        }
    }

    /// Takes in how one hook ended and says how its run is reported.
    pub fn absorb(&mut self, hook: &RegisteredHook, outcome: HandlerEnd) -> Report {
        let mut report = Report {
            status: HookRunStatus::Completed,
            entries: Vec::new(),
        };
        match outcome {
            HandlerEnd::Answered(output, notes) => match bounded(*output, &mut report) {
                Ok(output) => {
                    let notes = notes.into_iter().take(MAX_TEXTS_PER_ANSWER);
                    notes.for_each(|note| report.say(note.kind, cut(note.text)));
                    self.absorb_answer(hook, output, &mut report);
                }
                Err(why) => self.absorb_failure(hook, &why, &mut report),
            },
            HandlerEnd::Failed(why) => self.absorb_failure(hook, &cut(why), &mut report),
            HandlerEnd::Cancelled => {
                report.status = HookRunStatus::Cancelled;
                self.cancel(&hook.id);
            }
        }
        report
    }

    /// The token was cancelled before this hook had answered.
    pub fn cancel(&mut self, hook_id: &str) {
        self.verdict.cancelled = true;
        if self.event.is_blocking() {
            self.block_reasons
                .push(format!("cancelled before hook `{hook_id}` had answered"));
        }
    }

    /// True if no further hook may run.
    pub fn is_over(&self) -> bool {
        self.verdict.cancelled || self.verdict.stop.is_some()
    }

    /// Shows hooks of a later priority what the earlier ones rewrote.
    pub fn show_rewrites(&self, payload: &mut Value) {
        let rewrites = [
            (RewriteTarget::Input, &self.input),
            (RewriteTarget::Output, &self.output),
        ];
        for (target, rewrite) in rewrites {
            if let (Some(rewrite), Some(fields)) = (rewrite, payload.as_object_mut()) {
                fields.insert(target.payload_field().to_owned(), rewrite.value.clone());
            }
        }
    }

    pub fn finish(mut self) -> HookVerdict {
        match &self.verdict.conflict {
            None => {
                self.verdict.updated_input = self.input.map(|rewrite| rewrite.value);
                self.verdict.updated_output = self.output.map(|rewrite| rewrite.value);
            }
            Some(conflict) if self.event.is_blocking() => {
                self.block_reasons.push(conflict.to_string());
            }
            Some(_) => {}
        }
        if !self.block_reasons.is_empty() {
            self.verdict.block = Some(self.block_reasons.join("\n"));
        }
        self.verdict
    }

    fn absorb_failure(&mut self, hook: &RegisteredHook, why: &str, report: &mut Report) {
        report.status = HookRunStatus::Failed;
        report.say(HookEntryKind::Error, why);
        let file = hook.hook.file();
        let denies = !self.beside
            && match file.map(|file| file.on_failure).unwrap_or_default() {
                OnFailure::ByEvent => self.event.is_blocking(),
                OnFailure::Continue => false,
                OnFailure::Block => self.event.honours_block(),
            };
        if denies {
            let id = &hook.id;
            let event = self.event;
            let way_out = match file {
                Some(_) => ", unless its `onFailure` is `continue`",
                None => "",
            };
            self.block_reasons.push(format!(
                "hook `{id}` {why}; a {event} hook that gives no answer denies{way_out}"
            ));
        }
    }

    fn absorb_answer(&mut self, hook: &RegisteredHook, output: HookOutput, report: &mut Report) {
        if self.beside && !output.additional_context.is_empty() {
            self.note_without_effect("context", report);
        }
        if output.suppress_output {
            self.verdict.suppress_output = true;
        } else {
            for message in &output.system_messages {
                report.say(HookEntryKind::Feedback, message);
            }
            for context in &output.additional_context {
                report.say(HookEntryKind::Context, context);
            }
        }
        self.verdict.system_messages.extend(output.system_messages);
        self.verdict
            .additional_context
            .extend(output.additional_context);
        self.absorb_permission(output.permission, output.permission_reason, report);
        self.absorb_block(output.block_reason, report);
        self.absorb_stop(output.stop_reason, report);
        if let Some(value) = output.updated_input {
            self.absorb_rewrite(RewriteTarget::Input, hook, value, report);
        }
        if let Some(value) = output.updated_output {
            self.absorb_rewrite(RewriteTarget::Output, hook, value, report);
        }
    }

    fn absorb_permission(
        &mut self,
        decision: PermissionDecision,
        reason: Option<String>,
        report: &mut Report,
    ) {
        if decision == PermissionDecision::Passthrough {
            return;
        }
        if !self.event.is_blocking() || self.beside {
            self.note_without_effect("a permission", report);
            return;
        }
        match decision {
            PermissionDecision::Deny => {
                report.status = HookRunStatus::Blocked;
                report.say(
                    HookEntryKind::Stop,
                    reason.as_deref().unwrap_or("denied without a reason"),
                );
            }
            PermissionDecision::Ask => report.say(
                HookEntryKind::Feedback,
                reason.as_deref().unwrap_or("wants a person to approve"),
            ),
            PermissionDecision::Passthrough | PermissionDecision::Allow => {}
        }
        if decision > self.verdict.permission {
            self.verdict.permission = decision;
            self.verdict.permission_reason = reason;
        }
    }

    fn absorb_block(&mut self, reason: Option<String>, report: &mut Report) {
        let Some(reason) = reason else { return };
        if !self.event.honours_block() || self.beside {
            self.note_without_effect("a block", report);
            return;
        }
        report.status = HookRunStatus::Blocked;
        report.say(HookEntryKind::Stop, &reason);
        self.block_reasons.push(reason);
    }

    fn absorb_stop(&mut self, reason: Option<String>, report: &mut Report) {
        let Some(reason) = reason else { return };
        if !self.event.honours_stop() || self.beside {
            self.note_without_effect("a stop", report);
            return;
        }
        report.status = HookRunStatus::Stopped;
        report.say(HookEntryKind::Stop, &reason);
        self.verdict.stop = Some(reason);
    }

    fn absorb_rewrite(
        &mut self,
        target: RewriteTarget,
        hook: &RegisteredHook,
        value: Value,
        report: &mut Report,
    ) {
        let (event, slot) = match target {
            RewriteTarget::Input => (HookEventName::PreToolUse, &mut self.input),
            RewriteTarget::Output => (HookEventName::PostToolUse, &mut self.output),
        };
        if self.event != event || self.beside {
            self.note_without_effect(&format!("a rewritten {target}"), report);
            return;
        }
        match slot {
            None => {
                *slot = Some(Rewrite {
                    hook_id: hook.id.clone(),
                    order: hook.order,
                    value,
                });
            }
            Some(winner) if winner.value == value => {}
            Some(winner) if winner.order == hook.order => {
                let conflict = RewriteConflict {
                    target,
                    first: winner.hook_id.clone(),
                    second: hook.id.clone(),
                };
                report.say(HookEntryKind::Error, conflict.to_string());
                self.verdict.conflict.get_or_insert(conflict);
            }
            Some(winner) => report.say(
                HookEntryKind::Error,
                format!(
                    "the rewritten {target} is not used: hook `{}` of an earlier priority \
                     rewrote it already",
                    winner.hook_id
                ),
            ),
        }
    }

    fn note_without_effect(&self, part: &str, report: &mut Report) {
        let text = match self.beside {
            false => format!("{part} has no effect on {}", self.event),
            true => format!("{part} has no effect: the hook runs beside the turn"),
        };
        report.say(HookEntryKind::Error, text);
    }
}

/// The answer within its limits: long texts are cut, surplus ones dropped with
/// a note, and a rewrite that is too large is a failure.
fn bounded(mut output: HookOutput, report: &mut Report) -> Result<HookOutput, String> {
    for rewrite in [&output.updated_input, &output.updated_output] {
        if rewrite.as_ref().is_some_and(exceeds_rewrite_limit) {
            return Err(format!(
                "answered with a rewrite of more than {MAX_REWRITE_BYTES} bytes"
            ));
        }
    }
    for texts in [&mut output.system_messages, &mut output.additional_context] {
        if texts.len() > MAX_TEXTS_PER_ANSWER {
            let surplus = texts.len() - MAX_TEXTS_PER_ANSWER;
            texts.truncate(MAX_TEXTS_PER_ANSWER);
            report.say(
                HookEntryKind::Error,
                format!(
                    "{surplus} texts were dropped: an answer carries {MAX_TEXTS_PER_ANSWER} of a kind"
                ),
            );
        }
        for text in texts {
            *text = cut(std::mem::take(text));
        }
    }
    output.block_reason = output.block_reason.map(cut);
    output.stop_reason = output.stop_reason.map(cut);
    output.permission_reason = output.permission_reason.map(cut);
    Ok(output)
}

fn cut(mut text: String) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text;
    }
    let whole = text.len();
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text.push_str(&format!(" … [cut: {} of {whole} bytes kept]", text.len()));
    text
}

fn exceeds_rewrite_limit(value: &Value) -> bool {
    struct Counter {
        left: usize,
    }
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.left = self
                .left
                .checked_sub(bytes.len())
                .ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let counter = Counter {
        left: MAX_REWRITE_BYTES,
    };
    serde_json::to_writer(counter, value).is_err()
}
