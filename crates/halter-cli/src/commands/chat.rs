//! `halter chat`: a conversation at a terminal.

use crate::account::Account;
use crate::approvals::Approver;
use crate::args::ChatArgs;
use crate::attach::{self, Attachment};
use crate::context::Context;
use crate::editor::{Editor, Input};
use crate::exit::{Exit, StopSignal};
use crate::failure::{Failure, usage};
use crate::limits::LEAVE_WINDOW;
use crate::live::{Live, Wanted};
use crate::terminal;
use crate::turn::{self, TurnEnd, Watch};
use crate::typing::Typing;
use crate::view::{Activity, Steps, TextView, View, context_lines, media_tag};
use futures::{FutureExt, StreamExt};
use halter_config::SessionBackend;
use halter_protocol::{ModelId, ResourceUse, Turn, TurnId};
use std::path::Path;
use std::time::{Duration, Instant};

const HELP: &str = "\
/help           this text
/attach [FILE]  send an image, PDF or text with the next message; show what is attached
/detach         send no file after all
/model [MODEL]  show the model, or use another from now on: a role or provider/model
/cost           show what the session used, and what the prompt cache saved
/compact [WHAT] make the context smaller now; WHAT says what a summary should keep
/context        show what fills the model's context
/session        show the session's id and how to come back to it
/commands       list the commands, skills and prompts of MCP servers that you can type
/output-style [NAME]
                answer in another style from the next message on, or list the styles
/exit           leave; so do Ctrl-D, and Ctrl-C twice

Ctrl-C while the model works cancels its turn; a message typed meanwhile joins
it. Alt-Enter starts a new line.";

/// Talks until the user leaves.
pub async fn chat(context: &mut Context, arguments: ChatArgs) -> Result<Exit, Failure> {
    if !context.terminal.stdin || !context.data.is_terminal() {
        return Err(usage(
            "a chat needs a terminal",
            "use `halter run` for one task, also with --session",
        ));
    }
    let wanted = Wanted {
        session: arguments.session,
        model: arguments.turns.model.clone(),
        max_turns: arguments.turns.max_turns,
        budget: arguments.turns.budget.budget(),
        recording: arguments.turns.recording(),
        permissions: arguments.turns.permissions.clone(),
        approvals: Approver::person().approvals(),
    };
    let attachments = attach::read_all(&arguments.turns.attach)?;
    let live = Live::start(context, &wanted).await?;
    let editor = Editor::new(
        context.environment.state_dir(),
        context.terminal.color,
        live.stops.ending(),
    );
    let id = live.session.session_id().clone();
    context
        .messages
        .say(&format!("session {id} · /help for help · Ctrl-D leaves"));
    let conversation = Conversation {
        live,
        model: arguments.turns.model.map(ModelId::from),
        last_interrupt: None,
        turns: 0,
        is_new: wanted.session.is_none(),
        draft: String::new(),
        attachments,
        style: None,
    };
    conversation.show_attachments(context);
    let quick_exit = conversation.live.stops.quick_exit();
    // Whatever goes on then, nobody sees it, and line editors keep reading.
    tokio::select! {
        biased;
        () = terminal::closed() => quick_exit.leave(StopSignal::Hangup).await,
        exit = conversation.hold(context, editor) => exit,
    }
}

struct Conversation {
    live: Live,
    /// The model of coming turns, if not the session's own.
    model: Option<ModelId>,
    last_interrupt: Option<Instant>,
    turns: usize,
    is_new: bool,
    /// What was typed during the last turn and not sent.
    draft: String,
    /// What goes with the next message.
    attachments: Vec<Attachment>,
    /// The output style that the next message brings.
    style: Option<String>,
}

/// True for a word that is meant as a command: a path has a second slash.
fn is_command(word: &str) -> bool {
    word.strip_prefix('/')
        .is_some_and(|name| !name.contains('/'))
}

/// A path without the quotes that terminals put around one with spaces.
fn unquoted(path: &str) -> &str {
    let inside = |quote| path.strip_prefix(quote)?.strip_suffix(quote);
    inside('\'').or_else(|| inside('"')).unwrap_or(path)
}

/// What comes after an input.
enum Next {
    GoOn,
    Leave(Exit),
}

impl Conversation {
    /// Talks, then ends the session.
    async fn hold(mut self, context: &mut Context, editor: Editor) -> Result<Exit, Failure> {
        let outcome = self.talk(context, editor).await;
        let ended = self.end(context).await;
        let exit = outcome.and_then(|exit| ended.map(|()| exit));
        self.live.close(exit).await
    }

    async fn talk(&mut self, context: &mut Context, mut editor: Editor) -> Result<Exit, Failure> {
        loop {
            let read = editor.read(std::mem::take(&mut self.draft));
            let session = &self.live.session;
            let (used, input) = match self.turns > 0 && turn::hooks_hear(&self.live.harness) {
                true => turn::or_idle(read, turn::tell_of_idleness(session)).await?,
                false => read.await?,
            };
            editor = used;
            if let Some(signal) = self.ending() {
                context.messages.leave_line();
                return Ok(Exit::Signal(signal));
            }
            let next = match input {
                Input::Line(line) => self.line(context, line.trim()).await?,
                Input::Interrupt => self.interrupted(context),
                Input::End => Next::Leave(Exit::Success),
            };
            if let Next::Leave(exit) = next {
                return Ok(exit);
            }
        }
    }

    /// The signal that asks the program to end, Ctrl-C aside.
    fn ending(&self) -> Option<StopSignal> {
        let asked = self.live.stops.asked();
        asked.filter(|signal| *signal != StopSignal::Interrupt)
    }

    async fn line(&mut self, context: &mut Context, line: &str) -> Result<Next, Failure> {
        self.last_interrupt = None;
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => Ok(Next::GoOn),
            "/exit" | "/quit" => Ok(Next::Leave(Exit::Success)),
            "/help" => {
                context.messages.say(HELP);
                Ok(Next::GoOn)
            }
            "/session" => {
                let id = self.live.session.session_id();
                context.messages.say(&format!(
                    "{id}\ncome back with: halter sessions resume {id}"
                ));
                Ok(Next::GoOn)
            }
            "/cost" => {
                self.show_cost(context).await?;
                Ok(Next::GoOn)
            }
            "/model" => {
                self.choose_model(context, rest.trim());
                Ok(Next::GoOn)
            }
            "/compact" => self.compact(context, rest.trim()).await,
            "/context" => {
                match self.live.session.context().await {
                    Ok(report) => context.messages.say(&context_lines(&report).join("\n")),
                    Err(error) => context.messages.say(&error.to_string()),
                }
                Ok(Next::GoOn)
            }
            "/attach" => {
                self.attach(context, rest.trim());
                Ok(Next::GoOn)
            }
            "/detach" => {
                self.attachments.clear();
                context.messages.say("nothing is attached");
                Ok(Next::GoOn)
            }
            "/commands" => {
                self.show_commands(context).await;
                Ok(Next::GoOn)
            }
            "/output-style" => {
                self.choose_style(context, rest.trim());
                Ok(Next::GoOn)
            }
            _ if is_command(word) => self.invoke(context, word, line).await,
            _ => self.say(context, line).await,
        }
    }

    /// Sends a line as it is, with the resources it mentions.
    async fn say(&mut self, context: &mut Context, line: &str) -> Result<Next, Failure> {
        let mentioned = self.live.harness.mentioned_resources(line).await;
        match mentioned.map_err(Failure::from) {
            Ok(mentioned) => {
                let mut turn = Turn::user(line);
                turn.user_message.parts.extend(mentioned);
                self.answer(context, turn).await
            }
            Err(Failure::Error(error, _)) => {
                context.messages.error(&error);
                self.draft = line.to_owned();
                Ok(Next::GoOn)
            }
            Err(other) => Err(other),
        }
    }

    /// Sends what a command or a skill stands for. A line that is neither, but
    /// says more than a name, is taken as it is.
    async fn invoke(
        &mut self,
        context: &mut Context,
        word: &str,
        line: &str,
    ) -> Result<Next, Failure> {
        match self.live.invocation(line).await {
            Ok(Some(turn)) => self.answer(context, turn).await,
            Ok(None) if word.len() < line.len() => self.say(context, line).await,
            Ok(None) => {
                context.messages.say(&format!(
                    "there is no command {word}; see /help and /commands"
                ));
                Ok(Next::GoOn)
            }
            Err(Failure::Error(error, _)) => {
                context.messages.say(&error.to_string());
                Ok(Next::GoOn)
            }
            Err(other) => Err(other),
        }
    }

    async fn show_commands(&self, context: &Context) {
        let resources = self.live.harness.runtime().services().resources.get();
        let snapshot = &resources.snapshot;
        let commands = snapshot.commands.values();
        let commands = commands.map(|it| (it.name.as_str(), &it.argument_hint, &it.description));
        let skills = snapshot.skills.values().filter(|it| !it.model_only);
        let skills = skills.map(|it| (it.name.as_str(), &it.argument_hint, &it.description));
        let line = |name: &str, hint: Option<&str>, description: &str| {
            let hint = hint.map(|hint| format!(" {hint}"));
            format!("/{name}{}  {description}", hint.unwrap_or_default())
        };
        let (prompts, problems) = self.live.harness.mcp_prompts().await;
        for problem in problems {
            context.messages.warning(&problem.to_string());
        }
        let prompts = prompts
            .iter()
            .map(|it| line(&it.name, it.argument_hint().as_deref(), &it.description));
        let lines = commands
            .chain(skills)
            .map(|(name, hint, description)| line(name, hint.as_deref(), description))
            .chain(prompts);
        match lines.collect::<Vec<_>>().as_slice() {
            [] => context
                .messages
                .say("there are no commands and no skills here"),
            lines => context.messages.say(&lines.join("\n")),
        }
    }

    /// Has the next message bring an output style; without a name, lists them.
    fn choose_style(&mut self, context: &Context, name: &str) {
        let resources = self.live.harness.runtime().services().resources.get();
        let snapshot = &resources.snapshot;
        if name.is_empty() {
            let styles = snapshot.output_styles.values();
            let styles = styles.map(|style| format!("{}  {}", style.name, style.description));
            return match styles.collect::<Vec<_>>().as_slice() {
                [] => context.messages.say("there are no output styles here"),
                lines => context.messages.say(&lines.join("\n")),
            };
        }
        match snapshot.output_style(name) {
            Ok(style) => {
                let name = style.name.clone();
                context
                    .messages
                    .say(&format!("from the next message on: {name}"));
                self.style = Some(name);
            }
            Err(error) => context.messages.say(&error.to_string()),
        }
    }

    async fn show_cost(&self, context: &Context) -> Result<(), Failure> {
        let harness = &self.live.harness;
        let id = self.live.session.session_id();
        let account = Account::read(harness.store().as_ref(), id).await?;
        match account.lines(harness.catalog()).as_slice() {
            [] => context.messages.say("nothing was used yet"),
            lines => context.messages.say(&lines.join("\n")),
        }
        Ok(())
    }

    /// Makes the context smaller. Ctrl-C gives that up.
    async fn compact(&mut self, context: &mut Context, keep: &str) -> Result<Next, Failure> {
        self.live.stops.next_turn(&TurnId::new());
        let activity = self.activity(context);
        let mut view = TextView::new(&mut context.data, activity);
        let (session, events) = (self.live.session.clone(), &mut self.live.events);
        let keep = (!keep.is_empty()).then_some(keep);
        let compaction = session.compact(keep);
        tokio::pin!(compaction);
        let compacted = loop {
            tokio::select! {
                biased;
                event = events.next() => match event.transpose()? {
                    Some(event) => view.event(event)?,
                    None => break Ok(None),
                },
                compacted = &mut compaction => break compacted,
                _ = tokio::signal::ctrl_c() => {
                    session.cancel().await?;
                }
            }
        };
        while let Some(Some(event)) = events.next().now_or_never() {
            view.event(event?)?;
        }
        view.end();
        match compacted {
            Ok(Some(_)) => {}
            Ok(None) => context
                .messages
                .say("there is nothing to cut yet; see /context"),
            Err(error) => context.messages.say(&error.to_string()),
        }
        Ok(Next::GoOn)
    }

    /// Attaches a file to the next message; without a name, shows what is.
    fn attach(&mut self, context: &Context, path: &str) {
        if path.is_empty() && self.attachments.is_empty() {
            return context.messages.say("nothing is attached");
        }
        if !path.is_empty() {
            match attach::read(Path::new(unquoted(path))) {
                Ok(file) => self.attachments.push(file),
                Err(Failure::Error(error, _)) => return context.messages.error(&error),
                Err(_) => return,
            }
        }
        self.show_attachments(context);
    }

    fn show_attachments(&self, context: &Context) {
        for file in &self.attachments {
            let tag = media_tag(&file.part).unwrap_or_default();
            context
                .messages
                .say(&format!("with the next message: {} {tag}", file.name));
        }
    }

    fn choose_model(&mut self, context: &Context, id: &str) {
        let harness = &self.live.harness;
        if !id.is_empty() {
            let id = ModelId::from(id);
            match harness.model(&id) {
                Ok(_) => self.model = Some(id),
                Err(error) => return context.messages.say(&error.to_string()),
            }
        }
        let own = &self.live.session.blueprint().default_model;
        let current = self.model.as_ref().unwrap_or(own);
        let shown = match harness.model(current) {
            Ok(model) => format!("{current}: {} of {}", model.model, model.provider),
            Err(_) => current.to_string(),
        };
        context.messages.say(&shown);
    }

    async fn answer(&mut self, context: &mut Context, mut turn: Turn) -> Result<Next, Failure> {
        let attachments = std::mem::take(&mut self.attachments);
        turn.user_message = attach::message(turn.user_message, attachments);
        if let Some(name) = self.style.take() {
            turn = turn.with_use(ResourceUse::OutputStyle { name });
        }
        self.live.stops.next_turn(&turn.id);
        self.turns += 1;
        if self.model.is_some() {
            turn.default_model.clone_from(&self.model);
        }
        let activity = self.activity(context);
        let mut view = TextView::new(&mut context.data, activity);
        let (session, events) = (&self.live.session, &mut self.live.events);
        // Without it a message cannot join the running turn; nothing else is lost.
        let mut typing = Typing::start()
            .inspect_err(|error| tracing::debug!(%error, "keys are not read"))
            .ok();
        let watch = Watch {
            view: &mut view,
            time_limit: None,
            typing: typing.as_mut(),
            approver: &mut Approver::person(),
            notifies: turn::hooks_hear(&self.live.harness),
        };
        let ended = turn::run_turn(session, events, turn, watch).await;
        view.end();
        self.draft = typing.map(Typing::finish).unwrap_or_default();
        if let Some(signal) = self.ending() {
            return Ok(Next::Leave(Exit::Signal(signal)));
        }
        match ended? {
            TurnEnd::Completed => {}
            TurnEnd::Failed { error, .. } if error.code == "cancelled" => {
                self.last_interrupt = Some(Instant::now());
                context
                    .messages
                    .say("cancelled; press Ctrl-C again to leave");
            }
            TurnEnd::Failed { error, .. } => context.messages.error(&error.into()),
        }
        Ok(Next::GoOn)
    }

    fn activity(&self, context: &Context) -> Activity {
        let rates = self.live.harness.rate_limiter().clone();
        Activity::new(context.messages.clone(), Steps::Said, rates)
    }

    /// Ctrl-C at the prompt: the second in a row leaves.
    fn interrupted(&mut self, context: &Context) -> Next {
        if is_again(self.last_interrupt.map(|last| last.elapsed())) {
            return Next::Leave(Exit::Signal(StopSignal::Interrupt));
        }
        self.last_interrupt = Some(Instant::now());
        context.messages.say("press Ctrl-C again to leave");
        Next::GoOn
    }

    async fn end(&mut self, context: &mut Context) -> Result<(), Failure> {
        let activity = self.activity(context);
        let mut view = TextView::new(&mut context.data, activity);
        let (session, events) = (&self.live.session, &mut self.live.events);
        let ended = turn::end_session(session, events, &mut view, "the user left").await;
        self.tidy_up(context).await;
        ended
    }

    /// Forgets a session in which nothing was said; says how to come back to
    /// another.
    async fn tidy_up(&self, context: &Context) {
        let id = self.live.session.session_id();
        if self.is_new && self.turns == 0 {
            let deleted = self.live.harness.runtime().delete_session(id).await;
            if let Err(error) = deleted {
                tracing::debug!(%error, "empty session not deleted");
            }
            return;
        }
        let backend = self.live.harness.config().sessions.backend;
        if backend != SessionBackend::Memory {
            context
                .messages
                .note(&format!("come back with: halter sessions resume {id}"));
        }
    }
}

/// Whether a Ctrl-C so long after the last one means it.
fn is_again(since_last: Option<Duration>) -> bool {
    since_last.is_some_and(|since| since < LEAVE_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_around_a_path_are_no_part_of_it() {
        for path in ["a b.png", "'a b.png'", "\"a b.png\""] {
            assert_eq!(unquoted(path), "a b.png");
        }
        assert_eq!(unquoted("'"), "'");
        assert_eq!(unquoted("it's"), "it's");
    }

    #[test]
    fn two_in_a_row_leave() {
        assert!(!is_again(None));
        assert!(is_again(Some(LEAVE_WINDOW - Duration::from_nanos(1))));
        assert!(!is_again(Some(LEAVE_WINDOW)));
    }
}
