//! `halter resources`: what is loaded and from where, what was refused, and
//! which instruction files a session here would start with.

use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness::{self, Models, Store};
use halter::providers::OfflineProvider;
use halter::{CompiledResources, FoundInstructions, InstructionOrigin, LoadedInstructions};
use halter_protocol::encoding::escape_path;
use halter_protocol::{ResourceOrigin, ResourceSnapshot};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Prints the instruction files and all resources.
pub async fn resources(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let compiled = harness::compile(context, &loaded).await?;
    let harness = harness::build(
        context,
        &loaded,
        CompiledResources::from_snapshot(compiled.snapshot.clone()),
        Models::Injected(Arc::new(OfflineProvider::new())),
        Store::Memory,
    )
    .await?;
    let directory = context.globals.cwd.as_ref().map_or("", |_| ".");
    let instructions = harness.instructions(directory).await?;
    let mut warnings = compiled.messages();
    warnings.extend(harness.unknown_tools());
    warnings.extend(instructions.warnings.iter().map(ToString::to_string));
    let notes = compiled.warnings.iter().filter(|warning| warning.is_note());
    let notes: Vec<String> = notes.map(ToString::to_string).collect();
    if arguments.json {
        let data = as_json(&compiled, &instructions, &warnings, &notes);
        context.data.json(&data)?;
        return Ok(Exit::Success);
    }
    print(context, &compiled, &instructions)?;
    for warning in warnings {
        context.messages.warning(&warning);
    }
    for note in notes {
        context.messages.note(&note);
    }
    Ok(Exit::Success)
}

/// One thing that is loaded, as a line.
struct Entry<'a> {
    name: &'a str,
    description: &'a str,
    path: &'a Path,
    origin: &'a ResourceOrigin,
}

impl Entry<'_> {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "path": escape_path(self.path),
            "origin": self.origin.to_string(),
        })
    }

    fn line(&self) -> String {
        let Self {
            name,
            description,
            path,
            origin,
        } = self;
        let shown: String = description.chars().take(SHOWN_DESCRIPTION_CHARS).collect();
        let more = if shown.len() < description.len() {
            "…"
        } else {
            ""
        };
        format!("  {name}  {shown}{more}  ({origin}: {})", escape_path(path))
    }
}

/// Characters of a description that a line shows.
const SHOWN_DESCRIPTION_CHARS: usize = 100;

/// The lists, each under its title.
fn lists(snapshot: &ResourceSnapshot) -> Vec<(&'static str, Vec<Entry<'_>>)> {
    let skills = snapshot.skills.values().map(|it| Entry {
        name: it.name.as_str(),
        description: &it.description,
        path: &it.path,
        origin: &it.origin,
    });
    let agents = snapshot.agents.values().map(|it| Entry {
        name: it.name.as_str(),
        description: &it.description,
        path: &it.path,
        origin: &it.origin,
    });
    let commands = snapshot.commands.values().map(|it| Entry {
        name: &it.name,
        description: &it.description,
        path: &it.path,
        origin: &it.origin,
    });
    let styles = snapshot.output_styles.values().map(|it| Entry {
        name: &it.name,
        description: &it.description,
        path: &it.path,
        origin: &it.origin,
    });
    vec![
        ("skills", skills.collect()),
        ("agents", agents.collect()),
        ("commands", commands.collect()),
        ("output_styles", styles.collect()),
    ]
}

fn as_json(
    compiled: &CompiledResources,
    instructions: &FoundInstructions,
    warnings: &[String],
    notes: &[String],
) -> Value {
    let snapshot = &compiled.snapshot;
    let plugins: Vec<_> = snapshot.plugins.values().collect();
    let instructions: Vec<_> = instructions.files.iter().map(instruction_file).collect();
    let mut data = json!({
        "revision": snapshot.revision,
        "instructions": instructions,
        "plugins": plugins,
        "warnings": warnings,
        "notes": notes,
    });
    if let Some(fields) = data.as_object_mut() {
        for (title, entries) in lists(snapshot) {
            let entries = entries.iter().map(Entry::json).collect();
            fields.insert(title.to_owned(), Value::Array(entries));
        }
    }
    data
}

fn instruction_file(file: &LoadedInstructions) -> Value {
    let imported_by = match &file.origin {
        InstructionOrigin::Import { by } => Some(escape_path(by)),
        _ => None,
    };
    json!({
        "path": escape_path(&file.path),
        "origin": file.origin.as_str(),
        "imported_by": imported_by,
        "bytes": file.text.len(),
        "sha256": file.sha256,
    })
}

fn print(
    context: &mut Context,
    compiled: &CompiledResources,
    instructions: &FoundInstructions,
) -> Result<(), Failure> {
    let snapshot = &compiled.snapshot;
    let data = &mut context.data;
    data.line(&format!("revision  {}", snapshot.revision))?;
    data.line(&format!("instructions  {}", instructions.files.len()))?;
    for file in &instructions.files {
        let path = escape_path(&file.path);
        let origin = match &file.origin {
            InstructionOrigin::Import { by } => format!("imported by {}", escape_path(by)),
            other => other.as_str().to_owned(),
        };
        data.line(&format!("  {path}  {origin}, {} bytes", file.text.len()))?;
    }
    for (title, entries) in lists(snapshot) {
        data.line(&format!("{}  {}", title.replace('_', " "), entries.len()))?;
        for entry in entries {
            data.line(&entry.line())?;
        }
    }
    data.line(&format!("plugins  {}", snapshot.plugins.len()))?;
    for plugin in snapshot.plugins.values() {
        let version = plugin.version.as_deref().unwrap_or("-");
        let root = escape_path(&plugin.root);
        data.line(&format!(
            "  {} {version}  ({}: {root})",
            plugin.name, plugin.origin
        ))?;
    }
    Ok(())
}
