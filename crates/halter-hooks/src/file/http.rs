//! Addresses and headers of HTTP handlers.

use halter_policy::{Destination, Host};
use std::collections::BTreeMap;
use url::Url;

/// Refuses an address that is none, or whose host is not in each of the lists:
/// by its name, by `*.` and a name above it, or by `*`, with or without a port.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_address(address: &str, lists: &[Vec<String>]) -> Result<(), String> {
    let url = Url::parse(address).map_err(|error| format!("its url is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its url is `{}:`, not http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its url holds a user name or password; send a header instead".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let parsed = Host::parse(host).map_err(|why| format!("the host of its url is none: {why}"))?;
    let destination = Destination {
        host: parsed,
        port: url.port_or_known_default(),
    };
    match lists
        .iter()
        .all(|list| list.iter().any(|it| covers(it, &destination)))
    {
        true => Ok(()),
        false => Err(format!(
            "the host `{host}` is not in allowedHttpHosts; add it there, or change the url"
        )),
    }
}

/// Whether an entry names the host: itself, `*.` and a name above it, or `*`.
fn covers(entry: &str, destination: &Destination) -> bool {
    let entry = entry.trim().to_ascii_lowercase();
    if entry == "*" {
        return true;
    }
    let below = entry.strip_prefix("*.");
    let Ok(named) = Destination::parse(below.unwrap_or(&entry)) else {
        return false;
    };
    if named.port.is_some() && named.port != destination.port {
        return false;
    }
    match below {
        None => named.host == destination.host,
        Some(_) => match (&named.host, &destination.host) {
            (Host::Name(parent), Host::Name(name)) => name.ends_with(&format!(".{parent}")),
            _ => false,
        },
    }
}

/// Headers with the variables filled in that the handler may see; any other
/// `$NAME` becomes nothing, so that no secret leaves by mistake.
pub(crate) fn headers(
    headers: &BTreeMap<String, String>,
    allowed: &[String],
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let value = |name: &str| match allowed.iter().any(|it| it == name) {
        true => variable(name).unwrap_or_default(),
        false => String::new(),
    };
    headers
        .iter()
        .map(|(name, text)| (name.clone(), filled_in(text, &value)))
        .collect()
}

/// The text with `$NAME` and `${NAME}` replaced.
fn filled_in(text: &str, value: &impl Fn(&str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let (name, end) = match after.strip_prefix('{') {
            Some(braced) => match braced.split_once('}') {
                Some((name, end)) => (name, end),
                None => {
                    filled.push('$');
                    rest = after;
                    continue;
                }
            },
            None => {
                let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                after.split_at(after.find(is_end).unwrap_or(after.len()))
            }
        };
        match name.is_empty() {
            true => filled.push('$'),
            false => filled.push_str(&value(name)),
        }
        rest = end;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_held_against_every_list() {
        let lists = |lists: &[&[&str]]| -> Vec<Vec<String>> {
            let list = |list: &&[&str]| list.iter().map(|&it| it.to_owned()).collect();
            lists.iter().map(list).collect()
        };
        for (address, allowed, fits) in [
            ("https://hooks.example.com/x", lists(&[]), true),
            ("https://hooks.example.com/x", lists(&[&[]]), false),
            (
                "https://hooks.example.com/x",
                lists(&[&["hooks.example.com"]]),
                true,
            ),
            (
                "https://HOOKS.example.com/x",
                lists(&[&["Hooks.Example.com"]]),
                true,
            ),
            (
                "https://hooks.example.com/x",
                lists(&[&["*.example.com"]]),
                true,
            ),
            ("https://example.com/x", lists(&[&["*.example.com"]]), false),
            (
                "https://badexample.com/x",
                lists(&[&["*.example.com"]]),
                false,
            ),
            (
                "https://hooks.example.com/x",
                lists(&[&["*"], &["other.org"]]),
                false,
            ),
            (
                "https://hooks.example.com/x",
                lists(&[&["hooks.example.com:443"]]),
                true,
            ),
            (
                "https://hooks.example.com/x",
                lists(&[&["hooks.example.com:80"]]),
                false,
            ),
            (
                "http://127.0.0.1:8080/x",
                lists(&[&["127.0.0.1:8080"]]),
                true,
            ),
            ("http://localhost:8080/x", lists(&[&["localhost"]]), true),
            ("http://127.0.0.1:8080/x", lists(&[&["example.com"]]), false),
            ("ftp://example.com", lists(&[]), false),
            ("https://me:secret@example.com", lists(&[]), false),
            ("no address", lists(&[]), false),
        ] {
            let checked = check_address(address, &allowed);
            assert_eq!(checked.is_ok(), fits, "{address} {allowed:?} {checked:?}");
        }
    }

    #[test]
    fn only_allowed_variables_are_filled_in() {
        let given = BTreeMap::from([
            ("Authorization".to_owned(), "Bearer $TOKEN".to_owned()),
            ("X-Both".to_owned(), "${TOKEN}/$OTHER-$ $".to_owned()),
            ("X-Open".to_owned(), "${TOKEN".to_owned()),
        ]);
        let variable = |name: &str| Some(format!("<{name}>"));
        let filled = headers(&given, &["TOKEN".to_owned()], variable);
        let expected = [
            ("Authorization", "Bearer <TOKEN>"),
            ("X-Both", "<TOKEN>/-$ $"),
            ("X-Open", "${TOKEN"),
        ];
        let filled: Vec<_> = filled
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(filled, expected);
    }
}
