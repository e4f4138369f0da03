//! `halter sessions`: list, show, resume and delete what is stored.

mod tree;

use crate::account::Account;
use crate::args::{ChatArgs, RunOptions, SessionsCommand};
use crate::commands::{chat, run};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Loaded, Models, Store};
use crate::limits::TITLE_COLUMNS;
use crate::live::{self, not_found};
use crate::prompt::{self, PromptSource, StdinUse};
use crate::terminal::{columns, fitted, safe_line};
use crate::view::{context_lines, resource_counts, transcript_lines};
use async_trait::async_trait;
use halter::providers::OfflineProvider;
use halter::{Halter, HalterError};
use halter_config::SessionBackend;
use halter_protocol::{ResolvedModel, SessionEventPayload, SessionId, Timestamp};
use halter_providers::catalog::Catalog;
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use halter_session::limits::MAX_READ_EVENTS;
use halter_session::{PageRequest, SessionSummary, StoreError, read_events};
use indexmap::IndexMap;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use unicode_width::UnicodeWidthStr;

/// Does what is asked with stored sessions.
pub async fn sessions(context: &mut Context, command: SessionsCommand) -> Result<Exit, Failure> {
    match command {
        SessionsCommand::List {
            limit,
            cursor,
            json,
        } => {
            context.errors_in_data = json.json;
            let page = page(limit, cursor.as_deref())?;
            with_store(context, async |context, stored| {
                list(context, stored, page, json.json).await
            })
            .await
        }
        SessionsCommand::Show { id, json } => {
            context.errors_in_data = json.json;
            let id = SessionId::from(id);
            with_store(context, async |context, stored| {
                show(context, stored, &id, json.json).await
            })
            .await
        }
        SessionsCommand::Context { id, json } => {
            context.errors_in_data = json.json;
            let id = SessionId::from(id);
            with_store(context, async |context, stored| {
                show_context(context, stored, &id, json.json).await
            })
            .await
        }
        SessionsCommand::Resume { id, task, options } => resume(context, id, task, *options).await,
        SessionsCommand::Delete {
            ids,
            yes,
            dry_run,
            json,
        } => {
            context.errors_in_data = json.json;
            let wanted = Deletion {
                ids: ids.into_iter().map(SessionId::from).collect(),
                yes,
                dry_run,
                json: json.json,
            };
            with_store(context, async |context, stored| {
                delete(context, stored, wanted).await
            })
            .await
        }
    }
}

/// The store and what led to it.
struct Stored {
    loaded: Loaded,
    harness: Halter,
}

/// Knows models and asks none.
struct KnownModels;

#[async_trait]
impl Provider for KnownModels {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    fn model_capabilities(&self, model: &ResolvedModel) -> ProviderCapabilities {
        let window = Catalog::new().facts(model).context_window;
        self.capabilities().with_context_window(window.value)
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        OfflineProvider::new().stream(request, cancel).await
    }
}

/// Opens the store, works with it and closes it. No model is needed, so no key
/// is.
async fn with_store(
    context: &mut Context,
    work: impl AsyncFnOnce(&mut Context, &Stored) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let loaded = harness::load(context).await?;
    let harness = harness::build(
        context,
        &loaded,
        halter::CompiledResources::default(),
        Models::Injected(Arc::new(KnownModels)),
        Store::Configured,
    )
    .await?;
    if loaded.config.config.sessions.backend == SessionBackend::Memory {
        let origin = loaded.config.origin("sessions.backend");
        context.messages.warning(&format!(
            "sessions.backend is \"memory\" ({origin}), so no sessions are kept"
        ));
    }
    let stored = Stored { loaded, harness };
    let outcome = work(context, &stored).await;
    live::close(&stored.harness).await;
    outcome
}

// --- list -----------------------------------------------------------------

fn page(limit: usize, cursor: Option<&str>) -> Result<PageRequest, Failure> {
    let cursor = cursor
        .map(|text| {
            text.parse()
                .map_err(|error| HalterError::new("usage", format!("{error}")))
        })
        .transpose()?;
    if limit == 0 {
        return Err(usage("--limit is 0", "ask for at least one session"));
    }
    Ok(PageRequest { cursor, limit })
}

async fn list(
    context: &mut Context,
    stored: &Stored,
    page: PageRequest,
    json: bool,
) -> Result<Exit, Failure> {
    let page = stored.harness.runtime().list_sessions(page).await?;
    if json {
        context.data.json(&page)?;
        return Ok(Exit::Success);
    }
    let columns = context.data.is_terminal().then(columns);
    for line in table(&page.sessions, columns) {
        context.data.line(&line)?;
    }
    for unreadable in &page.unreadable {
        let (id, reason) = (&unreadable.session_id, &unreadable.reason);
        context
            .messages
            .warning(&format!("session '{id}' cannot be read: {reason}"));
    }
    if page.sessions.is_empty() && page.unreadable.is_empty() {
        context.messages.note("there are no sessions");
    }
    if let Some(next) = &page.next {
        context.messages.note(&format!(
            "there are more: halter sessions list --cursor {next}"
        ));
    }
    Ok(Exit::Success)
}

/// The sessions as a table, cut to the terminal's width where there is one.
fn table(sessions: &[SessionSummary], columns: Option<usize>) -> Vec<String> {
    let titles: Vec<String> = sessions.iter().map(title).collect();
    let width = titles.iter().map(|title| title.width()).max().unwrap_or(0);
    let line = |(session, title): (&SessionSummary, &String)| {
        let gap = " ".repeat(width - title.width());
        let line = format!(
            "{}  {}  {title}{gap}  {}",
            session.session_id,
            minute(session.updated_at),
            safe_line(&session.working_dir.display().to_string()),
        );
        match columns {
            Some(columns) => fitted(&line, columns).into_owned(),
            None => line,
        }
    };
    sessions.iter().zip(&titles).map(line).collect()
}

fn title(session: &SessionSummary) -> String {
    let mark = match session.parent_session_id {
        Some(_) => "↳ ",
        None => "",
    };
    let title = session.title.as_deref().unwrap_or("(no task yet)");
    let title = format!("{mark}{}", safe_line(title));
    fitted(&title, TITLE_COLUMNS).into_owned()
}

/// A moment to the minute, in the local time.
fn minute(at: Timestamp) -> String {
    let local = at.to_zoned(jiff::tz::TimeZone::system());
    local.strftime("%Y-%m-%d %H:%M").to_string()
}

// --- show -----------------------------------------------------------------

async fn show(
    context: &mut Context,
    stored: &Stored,
    id: &SessionId,
    json: bool,
) -> Result<Exit, Failure> {
    let store = stored.harness.store();
    let opened = match store.open(id).await {
        Err(StoreError::NotFound { .. }) => return Err(not_found(&stored.loaded, id)),
        other => other?,
    };
    if !json {
        let blueprint = &opened.record.blueprint;
        let data = &mut context.data;
        data.line(&format!("session    {id}"))?;
        data.line(&format!("started    {}", minute(blueprint.created_at)))?;
        data.line(&format!("directory  {}", blueprint.working_dir.display()))?;
        data.line(&format!("model      {}", blueprint.default_model))?;
        data.line(&format!("events     {}", opened.head))?;
    }
    let mut after = 0;
    let mut account = Account::default();
    let mut resources = None;
    loop {
        let events = read_events(store.as_ref(), id, after, MAX_READ_EVENTS).await?;
        let Some(last) = events.last() else {
            if !json {
                for line in account.lines(stored.harness.catalog()) {
                    context.data.line(&line)?;
                }
                let counts = resources.as_deref().and_then(resource_counts);
                if let Some(counts) = counts {
                    context.data.line(&format!("resources  {counts}"))?;
                }
                for line in tree::lines(store.as_ref(), id).await? {
                    context.data.line(&line)?;
                }
            }
            return Ok(Exit::Success);
        };
        let first = after == 0;
        after = last.sequence();
        for (index, event) in events.into_iter().enumerate() {
            account.count(&event.payload);
            if let SessionEventPayload::ResourcesLoaded(loaded) = &event.payload {
                resources = Some(loaded.clone());
            }
            let event = match first && index == 0 {
                true => event.first_of_stream(),
                false => event,
            };
            match json {
                true => context.data.json(&event.without_opaque())?,
                false => context.data.text(&transcript_lines(&event))?,
            }
        }
    }
}

// --- context --------------------------------------------------------------

async fn show_context(
    context: &mut Context,
    stored: &Stored,
    id: &SessionId,
    json: bool,
) -> Result<Exit, Failure> {
    let report = stored.harness.runtime().context_of(id).await?;
    let report = report.ok_or_else(|| not_found(&stored.loaded, id))?;
    if json {
        let parts = report.fill.parts().into_iter();
        let parts: IndexMap<&str, u64> = parts.collect();
        let size = &report.size;
        context.data.json(&json!({
            "session_id": id, "model": report.model, "messages": report.messages,
            "tokens": size.tokens, "measured": size.measured,
            "window": size.window, "limit": size.limit, "parts": parts,
        }))?;
        return Ok(Exit::Success);
    }
    for line in context_lines(&report) {
        context.data.line(&line)?;
    }
    Ok(Exit::Success)
}

// --- resume ---------------------------------------------------------------

async fn resume(
    context: &mut Context,
    id: String,
    task: Option<String>,
    options: RunOptions,
) -> Result<Exit, Failure> {
    if task.is_none() && context.terminal.stdin && options.mode().is_none() {
        let arguments = ChatArgs {
            turns: options.turns,
            session: Some(id),
        };
        return chat::chat(context, arguments).await;
    }
    let mode = run::mode(context, &options);
    let source = PromptSource {
        task: task.as_deref(),
        file: None,
        stdin: StdinUse::of(options.approvals()),
    };
    let task = prompt::read(context, source)?;
    let request = run::RunRequest {
        task,
        session: Some(id),
        options,
        mode,
    };
    run::answer(context, request).await
}

// --- delete ---------------------------------------------------------------

/// What to delete, and how sure the user is.
struct Deletion {
    ids: Vec<SessionId>,
    yes: bool,
    dry_run: bool,
    json: bool,
}

async fn delete(context: &mut Context, stored: &Stored, wanted: Deletion) -> Result<Exit, Failure> {
    let store = stored.harness.store();
    for id in &wanted.ids {
        // One that is damaged beyond opening may still be deleted.
        if let Err(StoreError::NotFound { .. }) = store.open(id).await {
            return Err(not_found(&stored.loaded, id));
        }
    }
    if !wanted.dry_run && !wanted.yes {
        agree(context, &wanted.ids)?;
    }
    if !wanted.dry_run {
        for id in &wanted.ids {
            for child in tree::below(store.as_ref(), id).await? {
                stored.harness.runtime().delete_session(&child).await?;
            }
            stored.harness.runtime().delete_session(id).await?;
        }
    }
    let verb = match wanted.dry_run {
        true => "would delete",
        false => "deleted",
    };
    if wanted.json {
        let key = verb.replace(' ', "_");
        context.data.json(&json!({ key: wanted.ids }))?;
        return Ok(Exit::Success);
    }
    for id in &wanted.ids {
        context.data.line(&format!("{verb} {id}"))?;
    }
    Ok(Exit::Success)
}

fn agree(context: &Context, ids: &[SessionId]) -> Result<(), Failure> {
    if !context.can_ask() {
        return Err(usage(
            "deleting needs a yes, and nobody can be asked here",
            "add --yes, or --dry-run to see what would go",
        ));
    }
    let question = match ids {
        [one] => format!("Delete session {one} for good?"),
        many => format!("Delete {} sessions for good?", many.len()),
    };
    match context.confirm(&question)? {
        true => Ok(()),
        false => Err(Failure::Told(Exit::Failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_is_cut() {
        let titled = |text: String| {
            title(&SessionSummary {
                session_id: "ses_1".into(),
                parent_session_id: None,
                created_at: Timestamp::UNIX_EPOCH,
                updated_at: Timestamp::UNIX_EPOCH,
                head: 1,
                working_dir: "/".into(),
                title: Some(text.into()),
            })
        };
        let fits = "x".repeat(TITLE_COLUMNS);
        assert_eq!(titled(fits.clone()), fits);
        let cut = titled(fits + "x");
        assert_eq!(cut.width(), TITLE_COLUMNS);
        assert!(cut.ends_with('…'), "{cut}");
    }
}
