//! Where commands run, from the configuration.

use halter_config::{Environment, ExecBackendChoice, HarnessConfig};
use halter_runtime::HalterError;
use halter_tools::ExecBackend;
use std::sync::Arc;

/// The place that a configuration names; none if it is this program.
pub(crate) fn configured_exec(
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Option<Arc<dyn ExecBackend>>> {
    match config.exec.backend {
        ExecBackendChoice::TerminalRuntime => runtime(config, environment).map(Some),
        _ => Ok(None),
    }
}

#[cfg(feature = "terminal-runtime")]
fn runtime(
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Arc<dyn ExecBackend>> {
    use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
    use terminal_runtime::client::Target;
    use terminal_runtime::settings::DEFAULT_SOCKET;

    let mut settings = RuntimeExecSettings::default();
    if let Some(image) = &config.exec.container {
        settings = settings.in_containers(image);
        settings.mounts.clone_from(&config.exec.mounts);
    }
    let variables = &config.policy.shell.env;
    settings.added_variables.clone_from(&variables.add);
    settings.removed_variables.clone_from(&variables.remove);
    let target = match &config.exec.url {
        Some(url) => remote::target(url, &config.exec, environment)?,
        None => {
            let socket = config.exec.socket.clone();
            Target::Socket(socket.unwrap_or_else(|| DEFAULT_SOCKET.into()))
        }
    };
    Ok(Arc::new(RuntimeExec::new(target, settings)))
}

#[cfg(not(feature = "terminal-runtime"))]
fn runtime(_: &HarnessConfig, _: &Environment) -> anyhow::Result<Arc<dyn ExecBackend>> {
    Err(HalterError::new(
        "config_backend_feature_disabled",
        "exec.backend: 'terminal-runtime' is not compiled in",
    )
    .with_hint("build with the cargo feature `terminal-runtime`, or use backend = \"local\"")
    .into())
}

/// Runtimes with an address.
#[cfg(feature = "terminal-runtime")]
mod remote {
    use super::HalterError;
    use crate::services::certificates;
    use halter_config::{Environment, ExecConfig};
    use halter_providers::http::tls_with_roots;
    use std::sync::Arc;
    use terminal_runtime::client::{RemoteTarget, Target};
    use terminal_runtime::settings::{TOKEN_VARIABLE, Token};

    fn refused(problem: impl Into<String>, hint: &str) -> anyhow::Error {
        HalterError::new("exec_address", problem)
            .with_hint(hint)
            .into()
    }

    pub(super) fn target(
        url: &str,
        exec: &ExecConfig,
        environment: &Environment,
    ) -> anyhow::Result<Target> {
        let (host, port, is_secure) = parts(url).ok_or_else(|| {
            refused(
                format!("exec.url: '{url}' is no address of a runtime"),
                "write https://host:port, without a path",
            )
        })?;
        let is_local = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
        if !is_secure && !is_local {
            return Err(refused(
                format!("exec.url: '{url}' would carry the token and all commands unencrypted"),
                "use https, with --tls-cert and --tls-key at the runtime",
            ));
        }
        let filled = |token: &&str| !token.trim().is_empty();
        let token = exec.token.as_deref().filter(filled);
        let token = token.or_else(|| environment.text(TOKEN_VARIABLE).filter(filled));
        let Some(token) = token.and_then(Token::new) else {
            return Err(refused(
                format!("exec.url: there is no token for the runtime at '{url}'"),
                "set exec.token or TRL_AUTH_TOKEN to the runtime's token",
            ));
        };
        let authorities = exec.ca_file.clone().or_else(|| certificates(environment));
        let tls = match is_secure {
            true => {
                let mut config = tls_with_roots(authorities.as_deref())?;
                // The client speaks nothing else.
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Some(Arc::new(config))
            }
            false => None,
        };
        Ok(Target::Remote(Box::new(RemoteTarget {
            host,
            port,
            token,
            tls,
        })))
    }

    /// Host, port, and whether it is encrypted.
    fn parts(url: &str) -> Option<(String, u16, bool)> {
        let (scheme, rest) = url.split_once("://")?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() || rest.contains(['/', '?', '#', '@', ' ']) {
            return None;
        }
        let default = if is_secure { 443 } else { 80 };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (rest, default),
        };
        (!host.is_empty()).then(|| (host.to_ascii_lowercase(), port, is_secure))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_address_is_a_host_and_a_port() {
            let found = |host: &str, port, is_secure| Some((host.to_owned(), port, is_secure));
            for (url, expected) in [
                (
                    "https://build.example:9100",
                    found("build.example", 9100, true),
                ),
                ("https://Build.example/", found("build.example", 443, true)),
                ("http://[::1]:9100", found("[::1]", 9100, false)),
                ("http://[::1]", found("[::1]", 80, false)),
                ("https://user@build.example", None),
                ("https://build.example/path", None),
                ("ssh://build.example", None),
                ("https://:1", None),
                ("https://build.example:port", None),
            ] {
                assert_eq!(parts(url), expected, "{url}");
            }
        }

        #[test]
        fn nothing_is_sent_in_the_clear_to_another_machine_or_without_a_token() {
            let exec = ExecConfig {
                token: Some("s3cret-s3cret-s3cret".to_owned()),
                ..ExecConfig::default()
            };
            let environment = Environment::default();
            let error = target("http://build.example", &exec, &environment).unwrap_err();
            assert!(error.to_string().contains("unencrypted"), "{error}");
            assert!(target("http://localhost:1", &exec, &environment).is_ok());
            let error = target("http://localhost:1", &ExecConfig::default(), &environment);
            assert!(error.unwrap_err().to_string().contains("no token"));
        }
    }
}
