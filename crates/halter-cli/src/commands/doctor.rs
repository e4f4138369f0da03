//! `halter doctor`: what an agent may do here, and what it would ask about.

use crate::args::DoctorArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness::{self, Loaded};
use halter::{Halter, ProbedServer, SandboxStatus};
use halter_config::LoopbackAllow;
use halter_policy::permission::Verdict;
use halter_protocol::RuleEffect;
use serde_json::{Value, json};

use super::exec_place::{ExecFindings, elsewhere};
use super::policy::explain::{call, directory, policy_harness, reason, verdict};
use super::sandbox::plan_of;

/// Shows mode, rules, roots, programs and what would be asked about.
pub async fn doctor(context: &mut Context, arguments: DoctorArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let mut loaded = harness::load_silently(context).await?;
    arguments.permissions.apply(&mut loaded.config)?;
    let harness = policy_harness(context, &loaded).await?;
    let found = Findings {
        settings: settings(&loaded),
        rules: rules(&loaded),
        samples: samples(context, &harness)?,
        sandbox: match elsewhere(&loaded) {
            Some(_) => None,
            None => Some(super::sandbox::status(plan_of(context, &harness).await?).await?),
        },
        exec: ExecFindings::of(&loaded, &harness).await,
        servers: super::mcp::probed(context, &loaded).await?,
        warnings: harness::warnings(&loaded.config),
    };
    match arguments.json.json {
        true => context.data.json(&found.json())?,
        false => {
            for line in found.lines() {
                context.data.line(&line)?;
            }
        }
    }
    Ok(Exit::Success)
}

struct Findings {
    /// Name, value, where it comes from.
    settings: Vec<(&'static str, Value, String)>,
    /// Effect, rule, where it comes from.
    rules: Vec<(&'static str, String, String)>,
    samples: Vec<Sample>,
    /// Of this machine, if commands run here.
    sandbox: Option<SandboxStatus>,
    exec: ExecFindings,
    servers: Vec<ProbedServer>,
    warnings: Vec<String>,
}

/// A call that many sessions make, and what would become of it.
struct Sample {
    about: String,
    verdict: Verdict,
    reason: String,
}

fn settings(loaded: &Loaded) -> Vec<(&'static str, Value, String)> {
    let config = &loaded.config.config;
    let policy = &config.policy;
    let origin = |key: &str| loaded.config.origin(key).to_string();
    let shown = |roots: &[std::path::PathBuf]| -> Value {
        roots.iter().map(|root| root.to_string_lossy()).collect()
    };
    let programs = match policy.shell.allow_is_default() {
        true => halter_policy::shell::default_programs().to_vec(),
        false => policy.shell.allow.clone(),
    };
    let hosts = match policy.network.enabled {
        true => policy.network.allowed_hosts.clone(),
        false => Vec::new(),
    };
    let loopback: Vec<String> = match policy.network.enabled {
        true => policy
            .network
            .allowed_loopback
            .iter()
            .map(service)
            .collect(),
        false => Vec::new(),
    };
    let read_roots = match policy.allowed_read_roots.as_slice() {
        [] => json!(["."]),
        roots => shown(roots),
    };
    vec![
        (
            "mode",
            json!(config.permissions.mode),
            origin("permissions.mode"),
        ),
        (
            "write roots",
            shown(&policy.allowed_write_roots),
            origin("policy.allowed_write_roots"),
        ),
        (
            "read roots",
            read_roots,
            origin("policy.allowed_read_roots"),
        ),
        (
            "shell",
            json!(policy.shell.enabled),
            origin("policy.shell.enabled"),
        ),
        ("programs", json!(programs), origin("policy.shell.allow")),
        (
            "hosts",
            json!(hosts),
            origin("policy.network.allowed_hosts"),
        ),
        (
            "loopback",
            json!(loopback),
            origin("policy.network.allowed_loopback"),
        ),
        (
            "read limit",
            json!(policy.max_read_bytes),
            origin("policy.max_read_bytes"),
        ),
    ]
}

/// A service of this machine, as it would be dialled.
fn service(service: &LoopbackAllow) -> String {
    match service.port {
        Some(port) => format!("{}:{port}", service.host),
        None => service.host.clone(),
    }
}

fn rules(loaded: &Loaded) -> Vec<(&'static str, String, String)> {
    let mut found = Vec::new();
    for effect in [RuleEffect::Deny, RuleEffect::Ask, RuleEffect::Allow] {
        let name = effect.as_str();
        for (index, rule) in loaded
            .config
            .config
            .permissions
            .rules(effect)
            .iter()
            .enumerate()
        {
            let origin = loaded
                .config
                .origin(&format!("permissions.{name}[{index}]"));
            found.push((name, rule.rule.clone(), origin.to_string()));
        }
    }
    found
}

/// Calls of the tools there are, each held against policy, rules and mode.
fn samples(context: &Context, harness: &Halter) -> Result<Vec<Sample>, Failure> {
    let directory = directory(context)?;
    let tools = harness.tools();
    let has = |name: &str| tools.iter().any(|spec| spec.name.as_str() == name);
    let shell = |command: &str| {
        (
            format!("shell: {command}"),
            call("shell", json!({"command": command})),
        )
    };
    let write = |path: &str| {
        let arguments = json!({"path": path, "content": ""});
        (format!("write: {path}"), call("write", arguments))
    };
    let read = |path: &str| (format!("read: {path}"), call("read", json!({"path": path})));
    let calls = [
        read("notes.txt"),
        read("/etc/hostname"),
        write("notes.txt"),
        write("/etc/halter-doctor"),
        shell("ls"),
        shell("git commit -m x"),
        shell("git push"),
        shell("git reset --hard"),
        shell("make test"),
    ];
    let mut samples = Vec::new();
    for (about, call) in calls {
        if !has(call.name.as_str()) {
            continue;
        }
        let explained = harness.explain_call(&call, &directory)?;
        samples.push(Sample {
            about,
            verdict: verdict(&explained),
            reason: reason(&explained).to_owned(),
        });
    }
    Ok(samples)
}

impl Findings {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, value, origin) in &self.settings {
            lines.push(format!("{name:<12} {}  ({origin})", plain(value)));
        }
        lines.extend(self.exec.lines());
        lines.extend(self.sandbox.iter().flat_map(super::sandbox::lines));
        lines.push(String::new());
        lines.push("rules, what denies first".to_owned());
        for (effect, rule, origin) in &self.rules {
            lines.push(format!("  {effect:<6} {rule}  ({origin})"));
        }
        if self.rules.is_empty() {
            lines.push("  none".to_owned());
        }
        lines.push(String::new());
        lines.push("what would happen; without anybody to ask, ask is deny".to_owned());
        for sample in &self.samples {
            let Sample {
                about,
                verdict,
                reason,
            } = sample;
            let verdict = verdict.as_str();
            lines.push(match verdict {
                "allow" => format!("  {verdict:<6} {about}"),
                _ => format!("  {verdict:<6} {about}\n         {reason}"),
            });
        }
        if !self.servers.is_empty() {
            lines.push(String::new());
            lines.push("MCP servers".to_owned());
            let told = self.servers.iter().flat_map(super::mcp::lines);
            lines.extend(told.map(|line| format!("  {line}")));
        }
        lines.extend(self.warnings.iter().map(|it| format!("warning: {it}")));
        lines
    }

    fn json(&self) -> Value {
        let settings: serde_json::Map<String, Value> = self
            .settings
            .iter()
            .map(|(name, value, origin)| {
                let shown = json!({"value": value, "origin": origin});
                (name.replace(' ', "_"), shown)
            })
            .collect();
        let rules: Vec<Value> = self
            .rules
            .iter()
            .map(|(effect, rule, origin)| json!({"effect": effect, "rule": rule, "origin": origin}))
            .collect();
        let samples: Vec<Value> = self
            .samples
            .iter()
            .map(|it| {
                json!({"call": it.about, "decision": it.verdict.as_str(), "message": it.reason})
            })
            .collect();
        json!({
            "settings": settings,
            "exec": self.exec.json(),
            "sandbox": self.sandbox,
            "rules": rules,
            "calls": samples,
            "mcp_servers": self.servers.iter().map(super::mcp::shown).collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }
}

/// A value without the punctuation of JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
