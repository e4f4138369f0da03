//! Variables in the tables of servers of tools.

/// A text with `${NAME}` and `${NAME:-text}` replaced by variables. A `$` before anything else
/// stays.
///
/// ```
/// use halter_config::expand_variables;
///
/// let lookup = |name: &str| (name == "HOST").then(|| "a.example".to_owned());
/// assert_eq!(expand_variables("https://${HOST}/$1", lookup)?, "https://a.example/$1");
/// assert_eq!(expand_variables("${PORT:-80}", lookup)?, "80");
/// assert_eq!(expand_variables("${PORT}", lookup), Err("PORT".to_owned()));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// The name of the first variable that is not set and has no other text.
pub fn expand_variables(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, tail)) = after.split_once('}') else {
            expanded.push_str("${");
            rest = after;
            break;
        };
        let (name, other) = match inside.split_once(":-") {
            Some((name, other)) => (name, Some(other)),
            None => (inside, None),
        };
        match lookup(name).filter(|value| !value.is_empty() || other.is_none()) {
            Some(value) => expanded.push_str(&value),
            None => expanded.push_str(other.ok_or_else(|| name.to_owned())?),
        }
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_are_expanded_once() {
        let lookup = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, meant) in [
            ("x${A}y", Ok("x${B}y")),
            ("$A ${", Ok("$A ${")),
            ("${EMPTY:-e}${EMPTY}", Ok("e")),
            ("${B:-}", Ok("")),
            ("${B}", Err("B")),
        ] {
            let expanded = expand_variables(text, lookup);
            assert_eq!(expanded.as_deref().map_err(String::as_str), meant, "{text}");
        }
    }

    #[test]
    fn a_deadline_of_a_server_holds_at_its_edge() {
        use crate::check::check;
        use crate::keys::{KeyPath, spec};
        use crate::limits::MAX_MCP_TIMEOUT_SECS;
        let kind = &spec(&KeyPath::plain("mcp.servers.x.timeout_secs"))
            .unwrap()
            .kind;
        assert!(check(kind, &json!(MAX_MCP_TIMEOUT_SECS)).is_ok());
        assert!(check(kind, &json!(MAX_MCP_TIMEOUT_SECS + 1.0)).is_err());
        assert!(check(kind, &json!(0)).is_err());
    }
}
