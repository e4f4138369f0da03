//! `halter resources`: what the configured roots hold.

use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness;
use halter_protocol::encoding::escape_path;
use serde_json::json;

/// Prints the skills and plugins.
pub async fn resources(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let compiled = harness::compile(&loaded).await?;
    let snapshot = &compiled.snapshot;
    if arguments.json {
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
        context.data.json(&json!({
            "revision": snapshot.revision,
            "skills": skills,
            "plugins": plugins,
            "warnings": compiled.messages(),
        }))?;
        return Ok(Exit::Success);
    }
    let data = &mut context.data;
    data.line(&format!("revision  {}", snapshot.revision))?;
    data.line(&format!("skills    {}", snapshot.skills.len()))?;
    for skill in snapshot.skills.values() {
        data.line(&format!("  {}  {}", skill.name, skill.description))?;
    }
    data.line(&format!("plugins   {}", snapshot.plugins.len()))?;
    for plugin in snapshot.plugins.values() {
        data.line(&format!("  {} {}", plugin.name, plugin.version))?;
    }
    for warning in compiled.messages() {
        context.messages.warning(&warning);
    }
    Ok(Exit::Success)
}
