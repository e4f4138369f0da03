//! The model services Halter knows by name: where they are, how they are spoken to, and which
//! variables hold their keys. Data only; nothing here reaches a service.

use crate::schema::{ChatDialect, ConfiguredProvider, ProviderWire};

/// A model service that needs no table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownService {
    /// The name of its table and of its models: `name/model`.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// How it is spoken to.
    pub wire: ProviderWire,
    /// Its manner of the Chat wire.
    pub dialect: Option<ChatDialect>,
    /// Its usual address.
    pub base_url: &'static str,
    /// The variables that may hold its key, the first one that is set wins; none: it needs no key.
    pub key_variables: &'static [&'static str],
    /// The variable that may hold another address.
    pub base_url_variable: Option<&'static str>,
    /// The model that is used when only a key is there and nobody named a model.
    pub first_model: Option<&'static str>,
    /// The port on this computer on which it listens, for a server that people run themselves.
    pub local_port: Option<u16>,
}

const fn local(
    name: &'static str,
    title: &'static str,
    dialect: ChatDialect,
    base_url: &'static str,
    port: u16,
) -> KnownService {
    KnownService {
        name,
        title,
        wire: ProviderWire::Chat,
        dialect: Some(dialect),
        base_url,
        key_variables: &[],
        base_url_variable: None,
        first_model: None,
        local_port: Some(port),
    }
}

/// Every known service. The order of those with a key is the order in which keys are looked for
/// when nobody named a model.
pub const KNOWN_SERVICES: [KnownService; 8] = [
    KnownService {
        name: "anthropic",
        title: "Anthropic",
        wire: ProviderWire::Anthropic,
        dialect: None,
        base_url: "https://api.anthropic.com",
        key_variables: &["ANTHROPIC_API_KEY"],
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        first_model: Some("claude-sonnet-5-5"),
        local_port: None,
    },
    KnownService {
        name: "openai",
        title: "OpenAI",
        wire: ProviderWire::Responses,
        dialect: Some(ChatDialect::OpenAi),
        base_url: "https://api.openai.com",
        key_variables: &["OPENAI_API_KEY"],
        base_url_variable: Some("OPENAI_BASE_URL"),
        first_model: Some("gpt-5.6-terra"),
        local_port: None,
    },
    KnownService {
        name: "openrouter",
        title: "OpenRouter",
        wire: ProviderWire::Chat,
        dialect: Some(ChatDialect::OpenRouter),
        base_url: "https://openrouter.ai/api",
        key_variables: &["OPENROUTER_API_KEY"],
        base_url_variable: None,
        first_model: Some("openrouter/auto"),
        local_port: None,
    },
    KnownService {
        name: "gemini",
        title: "Gemini",
        wire: ProviderWire::Gemini,
        dialect: None,
        base_url: "https://generativelanguage.googleapis.com",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url_variable: Some("GOOGLE_GEMINI_BASE_URL"),
        first_model: Some("gemini-3.8-flash"),
        local_port: None,
    },
    KnownService {
        base_url_variable: Some("OLLAMA_HOST"),
        ..local(
            "ollama",
            "Ollama",
            ChatDialect::Ollama,
            "http://127.0.0.1:11434",
            11434,
        )
    },
    local(
        "lmstudio",
        "LM Studio",
        ChatDialect::LmStudio,
        "http://127.0.0.1:1234",
        1234,
    ),
    local(
        "llamacpp",
        "llama.cpp",
        ChatDialect::LlamaCpp,
        "http://127.0.0.1:8080",
        8080,
    ),
    local(
        "vllm",
        "vLLM",
        ChatDialect::Vllm,
        "http://127.0.0.1:8000",
        8000,
    ),
];

/// The known service of that name.
///
/// ```
/// assert_eq!(halter_config::known_service("ollama").unwrap().local_port, Some(11434));
/// ```
pub fn known_service(name: &str) -> Option<&'static KnownService> {
    KNOWN_SERVICES.iter().find(|service| service.name == name)
}

/// The servers that people run on their own computer, in the order they are looked for.
pub fn local_services() -> impl Iterator<Item = &'static KnownService> {
    KNOWN_SERVICES
        .iter()
        .filter(|service| service.local_port.is_some())
}

/// The public address of a provider's service; `None` for a provider whose address only a table
/// can tell, and for one that is not a service.
pub fn default_base_url(provider: &ConfiguredProvider) -> Option<&'static str> {
    known_service(provider.as_str()).map(|service| service.base_url)
}

/// The environment variables that can hold a provider's key, the first one that is set wins.
/// A service of one's own has one too: `GROQ_API_KEY` for `groq`, `MY_GATEWAY_API_KEY` for
/// `my-gateway`.
pub fn api_key_variables(provider: &ConfiguredProvider) -> Vec<String> {
    match known_service(provider.as_str()) {
        Some(service) if !service.key_variables.is_empty() => service
            .key_variables
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        _ if *provider == ConfiguredProvider::Offline => Vec::new(),
        _ => vec![own_key_variable(provider.as_str())],
    }
}

fn own_key_variable(name: &str) -> String {
    let upper: String = name
        .chars()
        .map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_uppercase(),
            false => '_',
        })
        .collect();
    format!("{upper}_API_KEY")
}

impl KnownService {
    /// The address that its variable means. Ollama's may leave out the scheme, the host or the
    /// port, and may name the address on which the server listens everywhere.
    pub(crate) fn address(&self, variable: &str) -> String {
        let text = variable.trim();
        let Some(port) = self.local_port else {
            return text.to_owned();
        };
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme, rest.trim_end_matches('/')),
            None => ("http", text.trim_end_matches('/')),
        };
        let (host, own_port) = match rest.rsplit_once(':') {
            Some((host, digits)) if digits.parse::<u16>().is_ok() => (host, Some(digits)),
            _ => (rest, None),
        };
        let host = match host {
            "" | "0.0.0.0" | "[::]" => "127.0.0.1",
            host => host,
        };
        match (own_port, text.contains("://")) {
            (Some(own), _) => format!("{scheme}://{host}:{own}"),
            (None, true) => format!("{scheme}://{host}"),
            (None, false) => format!("{scheme}://{host}:{port}"),
        }
    }
}

/// The names of the services with a table or without, for messages.
pub(crate) fn known_names() -> Vec<&'static str> {
    KNOWN_SERVICES
        .iter()
        .map(|service| service.name)
        .chain(["offline"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_once_and_a_local_address_has_its_port() {
        for (index, service) in KNOWN_SERVICES.iter().enumerate() {
            assert!(
                KNOWN_SERVICES
                    .iter()
                    .skip(index + 1)
                    .all(|other| other.name != service.name)
            );
            if let Some(port) = service.local_port {
                assert_eq!(service.base_url, format!("http://127.0.0.1:{port}"));
            }
            assert_eq!(
                service.key_variables.is_empty(),
                service.first_model.is_none()
            );
        }
    }

    #[test]
    fn the_address_of_ollama_is_read_as_ollama_reads_it() {
        let ollama = known_service("ollama").unwrap();
        for (variable, address) in [
            ("127.0.0.1:5000", "http://127.0.0.1:5000"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            (":5000", "http://127.0.0.1:5000"),
            ("models.lan", "http://models.lan:11434"),
            ("https://models.lan/", "https://models.lan"),
            ("http://models.lan:5000", "http://models.lan:5000"),
            ("[::1]:5000", "http://[::1]:5000"),
        ] {
            assert_eq!(ollama.address(variable), address, "{variable}");
        }
    }

    #[test]
    fn a_service_of_ones_own_has_a_variable_of_its_own() {
        let variables = |name: &str| api_key_variables(&ConfiguredProvider::from_name(name));
        assert_eq!(variables("gemini"), ["GEMINI_API_KEY", "GOOGLE_API_KEY"]);
        assert_eq!(variables("my-gateway"), ["MY_GATEWAY_API_KEY"]);
        assert_eq!(variables("ollama"), ["OLLAMA_API_KEY"]);
        assert!(variables("offline").is_empty());
    }
}
