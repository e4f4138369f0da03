//! `halter resources`: what the configured roots hold, and which instruction
//! files a session here would start with.

use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness::{self, Models, Store};
use halter::providers::OfflineProvider;
use halter::{CompiledResources, FoundInstructions, InstructionOrigin, LoadedInstructions};
use halter_protocol::encoding::escape_path;
use serde_json::{Value, json};
use std::sync::Arc;

/// Prints the instruction files, skills and plugins.
pub async fn resources(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let compiled = harness::compile(&loaded).await?;
    let harness = harness::build(
        context,
        &loaded,
        CompiledResources::default(),
        Models::Injected(Arc::new(OfflineProvider::new())),
        Store::Memory,
    )
    .await?;
    let directory = context.globals.cwd.as_ref().map_or("", |_| ".");
    let instructions = harness.instructions(directory).await?;
    let mut warnings = compiled.messages();
    warnings.extend(instructions.warnings.iter().map(ToString::to_string));
    if arguments.json {
        let data = as_json(&compiled, &instructions, &warnings);
        context.data.json(&data)?;
        return Ok(Exit::Success);
    }
    print(context, &compiled, &instructions)?;
    for warning in warnings {
        context.messages.warning(&warning);
    }
    Ok(Exit::Success)
}

fn as_json(
    compiled: &CompiledResources,
    instructions: &FoundInstructions,
    warnings: &[String],
) -> Value {
    let snapshot = &compiled.snapshot;
    let skills: Vec<_> = snapshot
        .skills
        .values()
        .map(|skill| {
            json!({
                "name": skill.name,
                "description": skill.description,
                "path": escape_path(&skill.path),
            })
        })
        .collect();
    let plugins: Vec<_> = snapshot.plugins.values().collect();
    let instructions: Vec<_> = instructions.files.iter().map(instruction_file).collect();
    json!({
        "revision": snapshot.revision,
        "instructions": instructions,
        "skills": skills,
        "plugins": plugins,
        "warnings": warnings,
    })
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
    data.line(&format!("skills    {}", snapshot.skills.len()))?;
    for skill in snapshot.skills.values() {
        data.line(&format!("  {}  {}", skill.name, skill.description))?;
    }
    data.line(&format!("plugins   {}", snapshot.plugins.len()))?;
    for plugin in snapshot.plugins.values() {
        let version = plugin.version.as_deref().unwrap_or("-");
        data.line(&format!("  {} {version}", plugin.name))?;
    }
    Ok(())
}
