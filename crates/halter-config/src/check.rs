//! Holds one value against what its key takes.

use serde_json::Value;

use crate::credentials::REDACTED;
use crate::error::suggestion;
use crate::keys::Kind;
use crate::limits::{MAX_PROVIDER_NAME_BYTES, MAX_RULES};
use crate::schema::{LoopbackAllow, RuleConfig};
use halter_protocol::{PermissionRule, RuleEffect};

/// What is wrong with a value; `element` when it is one of a list.
#[derive(Debug, PartialEq)]
pub(crate) struct ValueFault {
    pub(crate) element: Option<usize>,
    /// Characters into the text, where the fault has such a place.
    pub(crate) offset: Option<usize>,
    pub(crate) reason: Reason,
}

/// The kind of fault.
#[derive(Debug, PartialEq)]
pub(crate) enum Reason {
    Type {
        expected: &'static str,
        found: &'static str,
    },
    Value {
        problem: String,
        hint: String,
    },
}

fn value_fault(problem: impl Into<String>, hint: impl Into<String>) -> ValueFault {
    ValueFault {
        element: None,
        offset: None,
        reason: Reason::Value {
            problem: problem.into(),
            hint: hint.into(),
        },
    }
}

fn type_fault(expected: &'static str, value: &Value) -> ValueFault {
    ValueFault {
        element: None,
        offset: None,
        reason: Reason::Type {
            expected,
            found: type_name(value),
        },
    }
}

/// The name of a value's type with its article.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// What a key of this kind takes, with its article.
pub(crate) fn expected(kind: &Kind) -> &'static str {
    match kind {
        Kind::Version => "the number 1",
        Kind::Boolean => "true or false",
        Kind::Integer { .. } => "a whole number",
        Kind::Number { .. } => "a number",
        Kind::Names => "a list of strings",
        Kind::WordOrNames(_) => "a word or a list of strings",
        Kind::Loopback => "a list of { host, port } tables",
        Kind::Rules(_) => "a list of rules",
        Kind::Text
        | Kind::Name
        | Kind::Provider
        | Kind::Url
        | Kind::Secret
        | Kind::Choice(_)
        | Kind::FilePath => "a string",
    }
}

/// Whether a key of this kind accepts the value.
pub(crate) fn check(kind: &Kind, value: &Value) -> Result<(), ValueFault> {
    match kind {
        Kind::Version => check_version(value),
        Kind::Boolean => value
            .as_bool()
            .map(drop)
            .ok_or_else(|| type_fault(expected(kind), value)),
        Kind::Integer { min, max } => check_integer(value, *min, *max),
        Kind::Number { min, max } => check_number(value, *min, *max),
        Kind::Provider => check_provider(text(value)?),
        Kind::Text => text(value).map(drop),
        Kind::Name | Kind::FilePath => check_name(value),
        Kind::Url => check_url(text(value)?),
        Kind::Secret => check_secret(text(value)?),
        Kind::Choice(choices) => check_choice(text(value)?, choices),
        Kind::WordOrNames(words) if value.is_string() => check_word(text(value)?, words),
        Kind::Names | Kind::WordOrNames(_) => each(value, expected(kind), check_name),
        Kind::Loopback => each(value, expected(kind), check_loopback),
        Kind::Rules(effect) => check_rules(value, *effect),
    }
}

fn text(value: &Value) -> Result<&str, ValueFault> {
    value.as_str().ok_or_else(|| type_fault("a string", value))
}

fn each(
    value: &Value,
    expected: &'static str,
    check: impl Fn(&Value) -> Result<(), ValueFault>,
) -> Result<(), ValueFault> {
    let list = value
        .as_array()
        .ok_or_else(|| type_fault(expected, value))?;
    for (index, element) in list.iter().enumerate() {
        check(element).map_err(|fault| ValueFault {
            element: Some(index),
            ..fault
        })?;
    }
    Ok(())
}

fn check_version(value: &Value) -> Result<(), ValueFault> {
    match value.as_i64() {
        Some(1) => Ok(()),
        Some(other) => Err(value_fault(
            format!("is {other}, which this version of Halter does not know"),
            "write version = 1",
        )),
        None => Err(type_fault("the number 1", value)),
    }
}

fn check_integer(value: &Value, min: u64, max: u64) -> Result<(), ValueFault> {
    let Value::Number(number) = value else {
        return Err(type_fault("a whole number", value));
    };
    if number.is_f64() {
        return Err(type_fault("a whole number", value));
    }
    match number.as_u64() {
        Some(given) if given > max => Err(value_fault(
            format!("is {given}, more than {max}"),
            format!("write a number from {min} to {max}"),
        )),
        Some(given) if given >= min => Ok(()),
        _ => Err(value_fault(
            format!("is {number}, less than {min}"),
            format!("write a number from {min} on"),
        )),
    }
}

fn check_number(value: &Value, min: f64, max: f64) -> Result<(), ValueFault> {
    let given = value
        .as_f64()
        .ok_or_else(|| type_fault("a number", value))?;
    if (min..=max).contains(&given) {
        Ok(())
    } else {
        Err(value_fault(
            format!("is {given}, outside {min} to {max}"),
            format!("write a number from {min} to {max}"),
        ))
    }
}

fn check_provider(name: &str) -> Result<(), ValueFault> {
    if is_provider_name(name) {
        Ok(())
    } else {
        Err(value_fault(
            format!("does not take {name:?}"),
            "name a service with letters, digits, hyphens and underscores",
        ))
    }
}

/// Whether a model service may be called that. No slash, for models are written service/model.
pub(crate) fn is_provider_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.len() <= MAX_PROVIDER_NAME_BYTES
        && name.bytes().all(plain)
        && name
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
}

fn check_name(value: &Value) -> Result<(), ValueFault> {
    let name = text(value)?;
    if name.trim().is_empty() {
        Err(value_fault("is blank", "write a name, or leave it out"))
    } else if name.contains('\0') {
        Err(value_fault("contains a NUL character", "take it out"))
    } else {
        Ok(())
    }
}

fn check_choice(given: &str, choices: &[String]) -> Result<(), ValueFault> {
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    if choices.contains(&given) {
        Ok(())
    } else {
        Err(value_fault(
            format!("does not take {given:?}"),
            suggestion(given, "values", &choices),
        ))
    }
}

/// As [`check_choice`], where names in a list are taken, too.
fn check_word(given: &str, words: &[String]) -> Result<(), ValueFault> {
    check_choice(given, words).map_err(|_| {
        value_fault(
            format!("does not take {given:?}"),
            format!("write one of {}, or a list of names", words.join(", ")),
        )
    })
}

fn check_url(url: &str) -> Result<(), ValueFault> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err(value_fault(
            "is not a web address",
            "write one that starts with https:// or http://",
        ));
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        // The address is shown in errors and by `config show`.
        return Err(value_fault(
            "holds a user name or password",
            "put credentials in api_key or headers",
        ));
    }
    if authority.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(value_fault(
            "is not a web address",
            "write one without blanks and with a host",
        ));
    }
    Ok(())
}

fn check_secret(secret: &str) -> Result<(), ValueFault> {
    if secret.trim() == REDACTED {
        return Err(value_fault(
            "holds the placeholder that is shown in place of a secret",
            "write the value itself, or leave it out; a key may be in its environment variable",
        ));
    }
    if secret.chars().any(|c| c.is_control() && c != '\t') {
        return Err(value_fault(
            "contains a control character",
            "write it on one line",
        ));
    }
    Ok(())
}

/// Whether a name can stand before the colon of a request header.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn check_rules(value: &Value, effect: RuleEffect) -> Result<(), ValueFault> {
    match value.as_array() {
        Some(rules) if rules.len() > MAX_RULES => Err(value_fault(
            format!("has {} rules, more than {MAX_RULES}", rules.len()),
            "write rules that cover more with `*`",
        )),
        _ => each(value, "a list of rules", |rule| check_rule(rule, effect)),
    }
}

/// A rule as a string, or as a table with examples.
fn check_rule(value: &Value, effect: RuleEffect) -> Result<(), ValueFault> {
    let hint = "write \"RULE\", or { rule = \"RULE\", match = [\"…\"], not_match = [\"…\"] }";
    let rule: RuleConfig = serde_json::from_value(value.clone())
        .map_err(|_| value_fault("is neither a rule nor a table with one", hint))?;
    match PermissionRule::parse(&rule.rule, effect) {
        Ok(_) => Ok(()),
        Err(error) => Err(ValueFault {
            // In a table the rule stands somewhere else.
            offset: value.is_string().then_some(error.position),
            ..value_fault(
                format!("does not take {:?}: {}", rule.rule, error.problem),
                error.hint(),
            )
        }),
    }
}

fn check_loopback(value: &Value) -> Result<(), ValueFault> {
    let hint = "write { host = \"localhost\" } or { host = \"localhost\", port = 8080 }";
    let service: LoopbackAllow = serde_json::from_value(value.clone())
        .map_err(|error| value_fault(format!("is not a service: {error}"), hint))?;
    match service.host.trim().is_empty() || service.port == Some(0) {
        true => Err(value_fault("has a blank host or the port 0", hint)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{KeyPath, spec};
    use crate::limits::MAX_PRICE_DOLLARS;
    use serde_json::json;

    const PORT: Kind = Kind::Integer { min: 1, max: 9 };

    #[test]
    fn limits_hold_at_their_edges() {
        for (value, accepted) in [
            (json!(0), false),
            (json!(1), true),
            (json!(9), true),
            (json!(10), false),
            (json!(-1), false),
            (json!(1.0), false),
        ] {
            assert_eq!(check(&PORT, &value).is_ok(), accepted, "{value}");
        }
        for (value, accepted) in [
            (json!(0), true),
            (json!(2), true),
            (json!(2.0), true),
            (json!(2.0001), false),
            (json!(-0.1), false),
            (json!("1"), false),
        ] {
            let temperature = Kind::Number { min: 0.0, max: 2.0 };
            assert_eq!(check(&temperature, &value).is_ok(), accepted, "{value}");
        }
    }

    #[test]
    fn prices_and_names_of_services_hold_at_their_edges() {
        for (value, accepted) in [
            (json!(0), true),
            (json!(0.25), true),
            (json!(MAX_PRICE_DOLLARS), true),
            (json!(MAX_PRICE_DOLLARS + 1.0), false),
            (json!(-0.1), false),
            (json!("1"), false),
        ] {
            let key = "providers.x.models.y.prices.input";
            let price = spec(&KeyPath::plain(key)).unwrap();
            assert_eq!(check(&price.kind, &value).is_ok(), accepted, "{value}");
        }
        let longest = "x".repeat(MAX_PROVIDER_NAME_BYTES);
        for (name, accepted) in [
            ("groq", true),
            ("my-gateway_2", true),
            (longest.as_str(), true),
            (&format!("{longest}x"), false),
            ("", false),
            ("-x", false),
            ("a/b", false),
            ("a.b", false),
            ("ü", false),
        ] {
            assert_eq!(is_provider_name(name), accepted, "{name}");
        }
    }

    #[test]
    fn addresses_need_a_scheme_and_a_host_and_no_password() {
        for (url, accepted) in [
            ("https://api.example.com", true),
            ("http://127.0.0.1:8080/v1", true),
            ("https://", false),
            ("https:///v1", false),
            ("ftp://example.com", false),
            ("api.example.com", false),
            ("https://user:pass@example.com", false),
            ("https://example.com/a@b", true),
            ("https://exa mple.com", false),
        ] {
            assert_eq!(check(&Kind::Url, &json!(url)).is_ok(), accepted, "{url}");
        }
    }

    #[test]
    fn the_element_of_a_list_is_named() {
        let fault = check(&Kind::Names, &json!(["git", 7])).unwrap_err();
        assert_eq!(fault.element, Some(1));
        assert_eq!(
            check(
                &Kind::Loopback,
                &json!([{"host": "localhost"}, {"prot": 1}])
            )
            .unwrap_err()
            .element,
            Some(1)
        );
    }

    #[test]
    fn a_placeholder_is_not_a_key() {
        assert!(check(&Kind::Secret, &json!(REDACTED)).is_err());
        assert!(check(&Kind::Secret, &json!("")).is_ok());
    }
}
