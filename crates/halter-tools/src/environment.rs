//! Which variables of an environment a command may see.

use std::collections::BTreeMap;
use std::ffi::OsString;

const SAFE_NAMES: [&str; 8] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "TMPDIR", "TZ",
];

/// The variables of `environment` that commands of a session may see: `PATH`,
/// `HOME`, `USER`, `LOGNAME`, `LANG`, `LC_*`, `TERM`, `TMPDIR` and `TZ`. No
/// key, token or other secret is among them.
///
/// Libraries read no environment of their own: the embedder passes what it
/// captured.
///
/// ```
/// use std::ffi::OsString;
///
/// let captured = [("PATH", "/usr/bin"), ("OPENAI_API_KEY", "sk-…"), ("LC_TIME", "C")]
///     .map(|(name, value)| (OsString::from(name), OsString::from(value)));
/// let safe = halter_tools::safe_environment(captured);
/// assert!(safe.keys().eq(["LC_TIME", "PATH"]));
/// ```
pub fn safe_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    environment
        .into_iter()
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| SAFE_NAMES.contains(&name) || name.starts_with("LC_"))
        })
        .collect()
}
