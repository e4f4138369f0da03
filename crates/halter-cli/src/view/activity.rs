//! What happens beside the answer, on standard error: tools, warnings, and the
//! line that shows progress.

use super::call::{shortcoming, summary};
use super::media::media_tags;
use super::resources::resource_changes;
use super::usage::{thousands, used};
use super::window::compacted;
use crate::limits::{MAX_PARTIAL_BYTES, SHOWN_DRAFT_CHARS};
use crate::output::{Messages, Verbosity};
use crate::terminal::safe_line;
use crate::turn::is_on_screen;
use halter::HalterError;
use halter::providers::{RateLimiter, RateWait};
use halter_protocol::{
    BudgetLeft, Message, SessionEvent, SessionEventPayload, SessionId, SubagentStatus, ToolCallId,
    ToolExecutionOutcome, Usage,
};
use std::time::{Duration, Instant};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// How long the line that shows progress waits before it appears: quick work
/// needs none.
const QUIET_START: Duration = Duration::from_millis(200);

/// Whether a line is said for each tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// Yes.
    Said,
    /// No: the output tells of them.
    Silent,
}

/// Follows a session for its user.
pub struct Activity {
    messages: Messages,
    steps: Steps,
    /// Where the session may have to wait before a request.
    rates: RateLimiter,
    /// Whose turn it is; known once it began.
    session: Option<SessionId>,
    started: Instant,
    live: bool,
    phase: &'static str,
    running: Vec<RunningCall>,
    used: Usage,
    /// How many subagents run.
    subagents: usize,
    /// How the limits of the turn and its session stand, where there are any.
    limits: Vec<BudgetLeft>,
    frame: usize,
    /// Thinking and tool output whose line is not complete yet.
    partial: String,
}

struct RunningCall {
    id: ToolCallId,
    summary: String,
    started: Instant,
}

impl Activity {
    /// Follows a session from now on.
    pub fn new(messages: Messages, steps: Steps, rates: RateLimiter) -> Self {
        Self {
            messages,
            steps,
            rates,
            session: None,
            started: Instant::now(),
            live: false,
            phase: "starting",
            running: Vec::new(),
            used: Usage::default(),
            subagents: 0,
            limits: Vec::new(),
            frame: 0,
            partial: String::new(),
        }
    }

    /// Takes an event in.
    pub fn observe(&mut self, event: &SessionEvent) {
        use SessionEventPayload as Payload;
        if !matches!(
            event.payload,
            Payload::ThinkingDelta { .. } | Payload::ToolOutput { .. }
        ) {
            self.flush_partial();
        }
        match &event.payload {
            Payload::TurnStarted { .. } => self.turn_started(&event.session_id),
            Payload::ThinkingDelta { delta } => {
                self.phase = "thinking";
                self.aside(&delta.text);
            }
            Payload::DeltaItem { .. } => self.phase = "writing",
            Payload::ToolExecutionStarted { call } => self.running.push(RunningCall {
                id: call.id.clone(),
                summary: summary(call),
                started: Instant::now(),
            }),
            Payload::ToolOutput { chunk, .. } => self.aside(chunk),
            Payload::ToolExecutionCompleted { outcome } => self.call_ended(outcome),
            Payload::MessageItem { message } => self.message(message),
            Payload::Warning { message } | Payload::NetworkRefused { message, .. } => {
                self.messages.warning(message);
            }
            Payload::CompactionStarted { .. } => self.compaction_started(),
            Payload::ContextCompacted(compaction) => {
                self.phase = "waiting for the model";
                self.messages.note(&compacted(compaction));
            }
            Payload::ResourcesLoaded(loaded) => {
                if let Some(changes) = resource_changes(loaded) {
                    self.messages.note(&changes);
                }
            }
            Payload::BudgetCharged { limits, .. } => self.limits.clone_from(limits),
            Payload::BudgetWarning(limit) => {
                let left = limit.resource.amount(limit.left());
                self.messages
                    .warning(&format!("budget: {limit} spent, {left} left"));
            }
            Payload::Notification { notification }
                if !is_on_screen(&notification.notification_type) =>
            {
                self.messages.note(&notification.message);
            }
            Payload::SubagentStarted { subagent } => self.subagent_started(subagent),
            Payload::SubagentEnded { subagent, .. } => self.subagent_ended(subagent),
            Payload::TurnInterrupted { .. } => self.phase = "stopping",
            Payload::ApprovalRequested(_) => self.phase = "waiting for your answer",
            Payload::ApprovalResolved { .. } => self.phase = "working",
            Payload::TurnCompleted { usage, .. } | Payload::TurnFailed { usage, .. } => {
                self.end();
                self.sum_up(usage);
                if self.subagents > 0 {
                    self.live = true;
                    self.phase = "waiting for subagents";
                }
            }
            _ => {}
        }
    }

    /// Draws the line that shows progress, and what somebody is typing.
    pub fn tick(&mut self, draft: &str) {
        let elapsed = self.started.elapsed();
        if !self.live || (elapsed < QUIET_START && draft.is_empty()) {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let frame = FRAMES.get(self.frame).unwrap_or(&' ');
        let said = match draft {
            "" => self.progress(),
            draft => format!("› {}", ending_of(draft)),
        };
        let time = seconds(elapsed);
        self.messages.status(&format!("{frame} {time} · {said}"));
    }

    fn progress(&self) -> String {
        let doing = match self.running.as_slice() {
            [] => match self.rate_wait() {
                Some(wait) => wait.to_string(),
                None => self.phase.to_owned(),
            },
            [one] => one.summary.clone(),
            [first, others @ ..] => format!("{} and {} more", first.summary, others.len()),
        };
        if self.used.buckets == Default::default() {
            return doing;
        }
        let input = thousands(self.used.input_tokens);
        let output = thousands(self.used.output_tokens);
        let left = match tightest(&self.limits) {
            Some(limit) => format!(", {} left", limit.resource.amount(limit.left())),
            None => String::new(),
        };
        format!("{input} tokens in, {output} out{left} · {doing}")
    }

    /// A summary may take a while. Outside of a turn there is no line that
    /// shows progress.
    fn compaction_started(&mut self) {
        self.phase = "making the context smaller";
        if !self.live {
            self.messages.note("making the context smaller");
        }
    }

    fn rate_wait(&self) -> Option<RateWait> {
        self.rates.wait_of(self.session.as_ref()?)
    }

    /// Shows what will join the turn.
    pub fn joined(&mut self, text: &str) {
        self.messages.say(&format!("› {text}"));
    }

    /// Asks the user something, whatever else they want to hear.
    pub fn question(&mut self, text: &str) {
        self.messages.question(text);
    }

    /// Says what is wrong with what the user wants.
    pub fn problem(&mut self, error: &HalterError) {
        self.messages.error(error);
    }

    /// Wipes the line.
    pub fn end(&mut self) {
        self.flush_partial();
        self.live = false;
        self.running.clear();
        self.messages.clear_status();
    }

    /// Says what the turn used and cost, to those who follow its steps.
    fn sum_up(&mut self, usage: &Usage) {
        if self.steps == Steps::Said && !usage.is_zero() {
            self.messages.note(&used(usage));
        }
    }

    fn turn_started(&mut self, session: &SessionId) {
        self.session = Some(session.clone());
        self.started = Instant::now();
        self.live = true;
        self.phase = "waiting for the model";
        self.used = Usage::default();
    }

    fn message(&mut self, message: &Message) {
        if let Message::Assistant(answer) = message {
            self.phase = "waiting for the model";
            if let Some(usage) = &answer.usage {
                self.used.saturating_accumulate(usage);
            }
        }
    }

    fn subagent_started(&mut self, subagent: &SubagentStatus) {
        self.phase = "waiting for subagents";
        self.subagents += 1;
        self.live = true;
        if self.steps == Steps::Said {
            let task = safe_line(subagent.task.lines().next().unwrap_or_default());
            let kind = subagent.agent_type.as_deref().unwrap_or("general");
            let (id, kind) = (&subagent.agent_id, safe_line(kind));
            self.messages.note(&format!("{id} ({kind}) starts: {task}"));
        }
    }

    fn subagent_ended(&mut self, subagent: &SubagentStatus) {
        self.subagents = self.subagents.saturating_sub(1);
        if self.steps == Steps::Said {
            let (id, state) = (&subagent.agent_id, &subagent.state);
            let why = subagent.error.as_ref();
            let why = why.map(|it| format!(": {}", safe_line(&it.message)));
            self.messages
                .note(&format!("{id} {state}{}", why.unwrap_or_default()));
        }
    }

    fn call_ended(&mut self, outcome: &ToolExecutionOutcome) {
        let place = self
            .running
            .iter()
            .position(|running| running.id == outcome.call.id);
        let took = place.map(|place| self.running.remove(place).started.elapsed());
        if self.steps == Steps::Silent {
            return;
        }
        let mut line = summary(&outcome.call);
        if let Some(took) = took.filter(|took| *took >= Duration::from_secs(1)) {
            line = format!("{line} ({})", seconds(took));
        }
        match shortcoming(outcome.result.as_deref()) {
            None => self
                .messages
                .done(&format!("{line}{}", media_tags(outcome.result.as_deref()))),
            Some(reason) => self.messages.undone(&format!("{line}: {reason}")),
        }
    }

    /// Says text of those who want to see everything, line by line.
    fn aside(&mut self, text: &str) {
        if self.messages.verbosity() < Verbosity::Verbose {
            return;
        }
        self.partial.push_str(text);
        if let Some(lines) = complete_lines(&mut self.partial) {
            self.messages.aside(lines.trim_end_matches('\n'));
        }
    }

    fn flush_partial(&mut self) {
        if !self.partial.is_empty() {
            let text = std::mem::take(&mut self.partial);
            self.messages.aside(&text);
        }
    }
}

/// The limit of which the least is left, by its share.
fn tightest(limits: &[BudgetLeft]) -> Option<&BudgetLeft> {
    let share = |it: &&BudgetLeft| u128::from(it.left()) * 1_000_000 / u128::from(it.limit.max(1));
    limits.iter().min_by_key(share)
}

/// Takes the lines that are complete, or too long to wait for.
fn complete_lines(partial: &mut String) -> Option<String> {
    let end = match partial.rfind('\n') {
        Some(end) => end + 1,
        None if partial.len() > MAX_PARTIAL_BYTES => partial.len(),
        None => return None,
    };
    let rest = partial.split_off(end);
    Some(std::mem::replace(partial, rest))
}

/// The end of a text, where it is being typed.
fn ending_of(draft: &str) -> String {
    let length = draft.chars().count();
    let skipped = length.saturating_sub(SHOWN_DRAFT_CHARS);
    draft.chars().skip(skipped).collect()
}

fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        _ => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{BudgetResource, BudgetScope};

    #[test]
    fn a_line_waits_for_its_end_unless_it_gets_too_long() {
        let mut partial = "one\ntwo\nthr".to_owned();
        assert_eq!(complete_lines(&mut partial).as_deref(), Some("one\ntwo\n"));
        assert_eq!(partial, "thr");
        let mut partial = "x".repeat(MAX_PARTIAL_BYTES);
        assert_eq!(complete_lines(&mut partial), None);
        partial.push('x');
        let shown = complete_lines(&mut partial).unwrap();
        assert_eq!((shown.len(), partial.len()), (MAX_PARTIAL_BYTES + 1, 0));
    }

    #[test]
    fn the_tightest_limit_is_shown() {
        let limit = |resource, spent, limit| BudgetLeft {
            scope: BudgetScope::Session,
            resource,
            spent,
            limit,
        };
        let limits = [
            limit(BudgetResource::Tokens, 10, 100),
            limit(BudgetResource::Cost, 900_000_000, 1_000_000_000),
        ];
        assert_eq!(tightest(&limits), limits.last());
        assert_eq!(tightest(&[]), None);
    }

    #[test]
    fn the_end_of_a_long_draft_is_shown() {
        let fits = format!("a{}", "é".repeat(SHOWN_DRAFT_CHARS - 1));
        assert_eq!(ending_of(&fits), fits);
        assert_eq!(ending_of(&format!("{fits}z")), format!("{}z", &fits[1..]));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(seconds(Duration::from_secs(59)), "59s");
        assert_eq!(seconds(Duration::from_secs(61)), "1m 01s");
        let shown = [999, 1_000, 12_340, 2_500_000].map(thousands);
        assert_eq!(shown, ["999", "1.0k", "12.3k", "2.5M"]);
    }
}
