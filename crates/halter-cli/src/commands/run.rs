//! `halter run`: one task, one answer.

use crate::approvals::Approver;
use crate::args::{OutputMode, RunArgs, RunOptions};
use crate::attach;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::live::{Live, Wanted};
use crate::output_schema;
use crate::prompt::{self, PromptSource, StdinUse, Task};
use crate::turn::{self, TurnEnd, Watch};
use crate::view::{Activity, JsonResultView, Steps, StreamingView, TextView, ValueView, View};
use halter_protocol::Turn;
use std::time::Duration;

/// Runs one turn in a new or a continued session.
pub async fn run(context: &mut Context, arguments: RunArgs) -> Result<Exit, Failure> {
    let mode = mode(context, &arguments.options);
    let source = PromptSource {
        task: arguments.task.as_deref(),
        file: arguments.prompt_file.as_deref(),
        stdin: StdinUse::of(arguments.options.approvals()),
    };
    let task = prompt::read(context, source)?;
    let turn = RunRequest {
        task,
        session: arguments.session,
        options: arguments.options,
        mode,
    };
    answer(context, turn).await
}

/// One task, and how to answer it.
pub struct RunRequest {
    /// The task.
    pub task: Task,
    /// The session to continue.
    pub session: Option<String>,
    /// How.
    pub options: RunOptions,
    /// What to print.
    pub mode: OutputMode,
}

/// What to print: text for people, JSON for programs, unless the user says
/// otherwise.
pub fn mode(context: &mut Context, options: &RunOptions) -> OutputMode {
    let mode = options.mode().unwrap_or(match context.data.is_terminal() {
        true => OutputMode::Text,
        false => OutputMode::JsonResult,
    });
    context.errors_in_data = mode != OutputMode::Text;
    mode
}

/// Answers a request.
pub async fn answer(context: &mut Context, request: RunRequest) -> Result<Exit, Failure> {
    let reads_events = request.mode == OutputMode::StreamingJson;
    let mut approver = Approver::wanted(context, request.options.approvals(), reads_events)?;
    let wanted = Wanted {
        session: request.session,
        model: request.options.turns.model.clone(),
        max_turns: request.options.turns.max_turns,
        budget: request.options.turns.budget.budget(),
        recording: request.options.turns.recording(),
        permissions: request.options.turns.permissions.clone(),
        approvals: approver.approvals(),
    };
    let schema = request.options.output_schema.as_deref();
    let schema = schema.map(output_schema::read).transpose()?;
    let attachments = attach::read_all(&request.options.turns.attach)?;
    let mut live = Live::start(context, &wanted).await?;
    if request.mode == OutputMode::StreamingJson {
        // From here on the events tell what went wrong.
        context.errors_in_data = false;
    }
    let mut turn = match asked(&live, &request.task).await {
        Ok(turn) => turn,
        Err(failure) => return live.close(Err(failure)).await,
    };
    turn.user_message = attach::message(turn.user_message, attachments);
    if let Some(model) = wanted.model.as_deref() {
        turn.default_model = Some(model.into());
    }
    let structured = schema.is_some();
    turn.response_schema = schema;
    let limit = request.options.timeout;
    let limit = limit.map(|seconds| Duration::from_secs(seconds.get()));
    let steps = match request.mode {
        OutputMode::Text => Steps::Said,
        _ if context.terminal.stderr => Steps::Said,
        _ => Steps::Silent,
    };
    let rates = live.harness.rate_limiter().clone();
    let activity = Activity::new(context.messages.clone(), steps, rates);
    let data = &mut context.data;
    let turn = Watched {
        turn,
        limit,
        approver: &mut approver,
    };
    let outcome = match request.mode {
        OutputMode::Text if structured => {
            watch(&mut live, turn, ValueView::new(data, activity)).await
        }
        OutputMode::Text => watch(&mut live, turn, TextView::new(data, activity)).await,
        OutputMode::JsonResult => watch(&mut live, turn, JsonResultView::new(data, activity)).await,
        OutputMode::StreamingJson => {
            watch(&mut live, turn, StreamingView::new(data, activity)).await
        }
    };
    let exit = outcome.and_then(|end| end.into_exit(live.stops.asked()));
    live.close(exit).await
}

/// The turn that a task stands for, with the resources it mentions.
async fn asked(live: &Live, task: &Task) -> Result<Turn, Failure> {
    let mut turn = match live.invocation(&task.text).await? {
        Some(invoked) => task.joining(invoked),
        None => Turn::new(task.message()),
    };
    let mentioned = live.harness.mentioned_resources(&task.text).await?;
    turn.user_message.parts.extend(mentioned);
    Ok(turn)
}

/// A turn, how long it may take, and who decides about its calls.
struct Watched<'a> {
    turn: Turn,
    limit: Option<Duration>,
    approver: &'a mut Approver,
}

/// Runs the turn and ends the session, whatever happens.
async fn watch(
    live: &mut Live,
    watched: Watched<'_>,
    mut view: impl View,
) -> Result<TurnEnd, Failure> {
    let Watched {
        turn,
        limit,
        approver,
    } = watched;
    live.stops.next_turn(&turn.id);
    let (session, events) = (&live.session, &mut live.events);
    let watch = Watch {
        view: &mut view,
        time_limit: limit,
        typing: None,
        approver,
        notifies: turn::hooks_hear(&live.harness),
    };
    let outcome = turn::run_turn(session, events, turn, watch).await;
    if matches!(outcome, Ok(TurnEnd::Completed)) {
        view.finish()?;
    }
    let reason = match (&outcome, live.stops.asked()) {
        (_, Some(_)) => "interrupted",
        (Ok(TurnEnd::Completed), None) => "complete",
        _ => "failed",
    };
    let ended = turn::end_session(session, events, &mut view, reason).await;
    let outcome = outcome?;
    ended?;
    Ok(outcome)
}
