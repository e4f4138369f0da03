//! Errors of lower crates as the one that callers match on.

use halter_config::ConfigError;
use halter_runtime::HalterError;

/// An error of the configuration as the methods of the facade return it: the
/// configuration's own error stays reachable by downcast, below ours.
pub fn config_failure(error: ConfigError) -> anyhow::Error {
    let place = error.location().map(|place| format!("{place}: "));
    let message = format!("{}{}", place.unwrap_or_default(), error.problem());
    let mut summary = HalterError::new(error.code(), message);
    if let Some(hint) = error.hint() {
        summary = summary.with_hint(hint);
    }
    anyhow::Error::new(error).context(summary)
}

/// An invalid combination of builder calls or settings.
pub(crate) fn invalid(message: impl std::fmt::Display) -> HalterError {
    HalterError::new(
        "invalid_configuration",
        format!("invalid configuration: {message}"),
    )
}
