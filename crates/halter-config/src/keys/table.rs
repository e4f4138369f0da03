//! The rows of the table of keys.

use super::Narrow::{self, Format, Lower, MorePatterns, Never, Only};
use super::{KeySpec, Kind};
use crate::limits::{MAX_INTEGER, MAX_RETRY_ATTEMPTS, MAX_TIMEOUT_SECS};

const fn active(pattern: &'static str, kind: Kind, narrow: Narrow) -> KeySpec {
    KeySpec {
        pattern,
        kind,
        narrow,
        waits_for: None,
    }
}

const fn later(
    pattern: &'static str,
    kind: Kind,
    narrow: Narrow,
    waits_for: &'static str,
) -> KeySpec {
    KeySpec {
        pattern,
        kind,
        narrow,
        waits_for: Some(waits_for),
    }
}

const COUNT: Kind = Kind::Integer {
    min: 1,
    max: MAX_INTEGER,
};
const COUNT_OR_ZERO: Kind = Kind::Integer {
    min: 0,
    max: MAX_INTEGER,
};
const SMALL_COUNT: Kind = Kind::Integer {
    min: 1,
    max: u32::MAX as u64,
};
const SMALL_COUNT_OR_ZERO: Kind = Kind::Integer {
    min: 0,
    max: u32::MAX as u64,
};
const SECONDS: Kind = Kind::Integer {
    min: 1,
    max: MAX_TIMEOUT_SECS,
};
const MILLISECONDS: Kind = Kind::Integer {
    min: 1,
    max: MAX_TIMEOUT_SECS * 1000,
};
const ATTEMPTS: Kind = Kind::Integer {
    min: 1,
    max: MAX_RETRY_ATTEMPTS,
};
const PERCENT: Kind = Kind::Integer { min: 0, max: 100 };

const REASONING: Kind = Kind::Choice(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]);
const WIRE: Kind = Kind::Choice(&["anthropic", "responses", "chat", "gemini"]);
const DIALECT: Kind = Kind::Choice(&[
    "generic",
    "openai",
    "openrouter",
    "ollama",
    "vllm",
    "llamacpp",
    "lmstudio",
]);

const COMPACTION: &str = "compaction";
const SUBAGENTS: &str = "subagents";
const NETWORK: &str = "the network tools";
const PLUGINS: &str = "plugins";
const SHELL_POLICY: &str = "the full shell policy";

/// Every key there is, one to a line.
#[rustfmt::skip]
pub(super) const KEYS: &[KeySpec] = &[
    active("version", Kind::Version, Format),
    active("providers.<provider>.wire", WIRE, Never),
    active("providers.<provider>.dialect", DIALECT, Never),
    active("providers.<provider>.base_url", Kind::Url, Never),
    active("providers.<provider>.api_key", Kind::Secret, Never),
    active("providers.<provider>.headers.<header>", Kind::Header, Never),
    active("providers.<provider>.temperature", Kind::Temperature, Never),
    active("providers.<provider>.ca_file", Kind::FilePath, Never),
    active("providers.<provider>.routing.order", Kind::Names, Never),
    active("providers.<provider>.routing.allow_fallbacks", Kind::Boolean, Never),
    active("providers.<provider>.resilience.timeouts.connect_secs", SECONDS, Never),
    active("providers.<provider>.resilience.timeouts.request_secs", SECONDS, Never),
    active("providers.<provider>.resilience.timeouts.stream_idle_secs", SECONDS, Never),
    active("providers.<provider>.resilience.request_retry.max_attempts", ATTEMPTS, Never),
    active("providers.<provider>.resilience.request_retry.deadline_secs", SECONDS, Never),
    active("providers.<provider>.resilience.request_retry.base_backoff_ms", MILLISECONDS, Never),
    active("providers.<provider>.resilience.request_retry.max_backoff_secs", SECONDS, Never),
    active("providers.<provider>.resilience.request_retry.jitter_pct", PERCENT, Never),
    active("providers.<provider>.models.<model>.max_input_tokens", SMALL_COUNT, Never),
    active("providers.<provider>.models.<model>.max_output_tokens", SMALL_COUNT, Never),
    active("providers.<provider>.models.<model>.prices.input", Kind::Price, Never),
    active("providers.<provider>.models.<model>.prices.output", Kind::Price, Never),
    active("providers.<provider>.models.<model>.prices.cache_read", Kind::Price, Never),
    active("providers.<provider>.models.<model>.prices.cache_write", Kind::Price, Never),
    active("models.<role>.provider", Kind::Provider, Never),
    active("models.<role>.model", Kind::Name, Never),
    active("models.<role>.max_input_tokens", SMALL_COUNT, Never),
    active("models.<role>.max_output_tokens", SMALL_COUNT, Never),
    active("models.<role>.reasoning", REASONING, Never),
    active("models.<role>.tokens_per_minute", SMALL_COUNT, Never),
    active("resources.skills.roots", Kind::ResourceRoots, Never),
    later("resources.plugins.roots", Kind::ResourceRoots, Never, PLUGINS),
    active("prompts.preset", Kind::Choice(&["general", "coding"]), Never),
    active("prompts.system_prompt", Kind::Text, Never),
    active("prompts.append_system_prompt", Kind::Text, Never),
    later("context.compaction_threshold", COUNT, Never, COMPACTION),
    later("context.pre_compaction_target", COUNT, Never, COMPACTION),
    later("context.prune_signal_threshold", Kind::Choice(&["very_low", "low", "normal", "high"]), Never, COMPACTION),
    active("tools.enabled", Kind::Names, Narrow::FewerEmptyIsAll),
    active("policy.allowed_write_roots", Kind::PolicyRoots, Narrow::FewerRoots),
    active("policy.allowed_read_roots", Kind::PolicyRoots, Narrow::FewerRootsEmptyIsBuiltIn),
    active("policy.sensitive_path_patterns", Kind::Names, MorePatterns),
    active("policy.max_read_bytes", COUNT, Lower),
    later("policy.max_subagent_depth", SMALL_COUNT_OR_ZERO, Lower, SUBAGENTS),
    later("policy.max_concurrent_subagents", SMALL_COUNT, Lower, SUBAGENTS),
    active("policy.shell.enabled", Kind::Boolean, Only("false")),
    active("policy.shell.allow", Kind::Names, Narrow::FewerStarIsAll),
    later("policy.shell.mode", Kind::Choice(&["strict", "relaxed"]), Only("strict"), SHELL_POLICY),
    active("policy.shell.timeout_secs", SECONDS, Lower),
    active("policy.shell.env.add", Kind::Names, Never),
    active("policy.shell.env.remove", Kind::Names, Never),
    later("policy.network.enabled", Kind::Boolean, Only("false"), NETWORK),
    later("policy.network.allowed_hosts", Kind::Names, Narrow::FewerStarIsAll, NETWORK),
    later("policy.network.allowed_loopback", Kind::Loopback, Narrow::FewerLoopback, NETWORK),
    active("sessions.backend", Kind::Choice(&["memory", "sqlite"]), Never),
    active("sessions.sqlite_path", Kind::FilePath, Never),
    active("sessions.durability", Kind::Choice(&["process", "power"]), Never),
    active("runtime.working_dir", Kind::FilePath, Never),
    active("runtime.traces_dir", Kind::FilePath, Never),
    later("runtime.subagent_event_forwarding", Kind::Choice(&["off", "all"]), Never, SUBAGENTS),
    later("runtime.subagent_event_forwarding_cap", COUNT_OR_ZERO, Never, SUBAGENTS),
    active("resilience.timeouts.connect_secs", SECONDS, Never),
    active("resilience.timeouts.request_secs", SECONDS, Never),
    active("resilience.timeouts.stream_idle_secs", SECONDS, Never),
    active("resilience.request_retry.max_attempts", ATTEMPTS, Never),
    active("resilience.request_retry.deadline_secs", SECONDS, Never),
    active("resilience.request_retry.base_backoff_ms", MILLISECONDS, Never),
    active("resilience.request_retry.max_backoff_secs", SECONDS, Never),
    active("resilience.request_retry.jitter_pct", PERCENT, Never),
];
