//! What a project file that nobody has trusted may do: ask for less.
//!
//! A repository is somebody else's text. Until its file is trusted, a key counts only where the
//! outcome is certainly a part of what the user already allows; where that cannot be told, the
//! key is ignored with a warning.
//!
//! The README has the table. Keys that are not in it decide where keys, text and files go, what a
//! run costs or what the model is told; of those less cannot be told from more.

use std::path::{Component, Path};

use halter_protocol::PermissionMode;
use serde_json::Value;

use crate::keys::{KeySpec, Kind, Narrow};

/// What becomes of a value that an untrusted file asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Narrowing {
    /// It changes nothing.
    Nothing,
    /// It counts.
    Take(Value),
    /// This much of it counts.
    TakePart(Value, String),
    /// It does not count.
    Refuse(String),
}

/// Judges one value against the value that holds without the file.
pub(crate) fn narrow(spec: &KeySpec, base: Option<&Value>, asked: &Value) -> Narrowing {
    if unchanged(spec, base, asked) {
        return Narrowing::Nothing;
    }
    match spec.narrow {
        Narrow::Format => Narrowing::Nothing,
        Narrow::Never => Narrowing::Refuse("it is ignored".to_owned()),
        Narrow::Only(word) => only(word, asked),
        Narrow::Lower => lower(base, asked),
        Narrow::LowerOrLimit if base.is_none() => Narrowing::Take(asked.clone()),
        Narrow::LowerOrLimit => lower(base, asked),
        Narrow::FewerEmptyIsAll => fewer_empty_is_all(list(base), list(Some(asked))),
        Narrow::FewerStarIsAll => fewer_star_is_all(list(base), list(Some(asked))),
        Narrow::FewerRoots => fewer_roots(list(base), list(Some(asked))),
        Narrow::FewerRootsEmptyIsBuiltIn => {
            fewer_roots_empty_is_built_in(list(base), list(Some(asked)))
        }
        Narrow::FewerLoopback => {
            let base = list(base);
            keep(list(Some(asked)), |service| {
                base.iter().any(|allowed| covers(allowed, service))
            })
        }
        Narrow::MorePatterns => more_patterns(base, asked),
        Narrow::LowerMode => lower_mode(base, asked),
        Narrow::MoreRules => Narrowing::Take(asked.clone()),
    }
}

fn unchanged(spec: &KeySpec, base: Option<&Value>, asked: &Value) -> bool {
    match spec.kind {
        // Written alike, they still start at different files.
        Kind::FilePath => false,
        // Roots add up, so an empty list adds nothing.
        _ if spec.adds_up() => list(Some(asked)).is_empty(),
        _ => base == Some(asked),
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn only(word: &str, asked: &Value) -> Narrowing {
    let asks_for_it = match asked {
        Value::Bool(flag) => flag.to_string() == word,
        other => other.as_str() == Some(word),
    };
    if asks_for_it {
        Narrowing::Take(asked.clone())
    } else {
        Narrowing::Refuse(format!("it may only set {word}"))
    }
}

fn lower(base: Option<&Value>, asked: &Value) -> Narrowing {
    match (base.and_then(Value::as_f64), asked.as_f64()) {
        (Some(base), Some(asked_number)) if asked_number < base => Narrowing::Take(asked.clone()),
        (Some(base), _) => Narrowing::Refuse(format!("it may only lower the limit of {base}")),
        (None, _) => Narrowing::Refuse("it is ignored".to_owned()),
    }
}

fn lower_mode(base: Option<&Value>, asked: &Value) -> Narrowing {
    let mode = |value: Option<&Value>| value.and_then(Value::as_str)?.parse().ok();
    let base: PermissionMode = mode(base).unwrap_or_default();
    match mode(Some(asked)) {
        Some(asked_mode) if asked_mode < base => Narrowing::Take(asked.clone()),
        _ => Narrowing::Refuse(format!("it may only choose a narrower mode than {base}")),
    }
}

/// The elements that pass, with the others named.
fn keep(asked: &[Value], passes: impl Fn(&Value) -> bool) -> Narrowing {
    let (kept, left_out): (Vec<Value>, Vec<Value>) =
        asked.iter().cloned().partition(|value| passes(value));
    if left_out.is_empty() {
        return Narrowing::Take(Value::Array(kept));
    }
    let names: Vec<String> = left_out.iter().map(crate::effect::shown).collect();
    Narrowing::TakePart(
        Value::Array(kept),
        format!("{} is left out", names.join(", ")),
    )
}

/// The same, where an empty list would mean more instead of nothing.
fn keep_some(asked: &[Value], passes: impl Fn(&Value) -> bool) -> Narrowing {
    match keep(asked, passes) {
        Narrowing::Take(Value::Array(kept)) | Narrowing::TakePart(Value::Array(kept), _)
            if kept.is_empty() =>
        {
            Narrowing::Refuse("nothing on its list is allowed, so the list is ignored".to_owned())
        }
        outcome => outcome,
    }
}

fn fewer_empty_is_all(base: &[Value], asked: &[Value]) -> Narrowing {
    if base.is_empty() {
        return keep_some(asked, |_| true);
    }
    keep_some(asked, |name| base.contains(name))
}

fn fewer_star_is_all(base: &[Value], asked: &[Value]) -> Narrowing {
    let all = base.iter().any(|name| name.as_str() == Some("*"));
    keep(asked, |name| all || base.contains(name))
}

fn fewer_roots(base: &[Value], asked: &[Value]) -> Narrowing {
    keep(asked, |root| {
        base.iter().any(|allowed| same_root(allowed, root))
    })
}

fn fewer_roots_empty_is_built_in(base: &[Value], asked: &[Value]) -> Narrowing {
    // The built-in read roots are the session's directory and what the runtime adds; of those
    // only the former can be named.
    let built_in = [Value::from(".")];
    let base = if base.is_empty() { &built_in } else { base };
    keep_some(asked, |root| {
        base.iter().any(|allowed| same_root(allowed, root))
    })
}

/// Whether two roots are spelled alike, `./` aside. Nothing is resolved: what a name leads to can
/// change between now and the session.
fn same_root(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_str(), right.as_str()) else {
        return false;
    };
    fn parts(path: &str) -> Vec<Component<'_>> {
        Path::new(path)
            .components()
            .filter(|component| *component != Component::CurDir)
            .collect()
    }
    parts(left) == parts(right)
}

fn covers(allowed: &Value, asked: &Value) -> bool {
    let host = |value: &Value| {
        value
            .get("host")
            .and_then(Value::as_str)
            .map(str::to_lowercase)
    };
    host(allowed) == host(asked)
        && allowed
            .get("port")
            .is_none_or(|port| asked.get("port") == Some(port))
}

fn more_patterns(base: Option<&Value>, asked: &Value) -> Narrowing {
    let Some(base) = base else {
        return Narrowing::Refuse(
            "it would replace the built-in patterns, so it is ignored".to_owned(),
        );
    };
    let (base, asked) = (list(Some(base)), list(Some(asked)));
    let left_out: Vec<String> = base
        .iter()
        .filter(|pattern| !asked.contains(pattern))
        .map(crate::effect::shown)
        .collect();
    let mut union = base.to_vec();
    union.extend(
        asked
            .iter()
            .filter(|pattern| !base.contains(pattern))
            .cloned(),
    );
    if left_out.is_empty() {
        Narrowing::Take(Value::Array(union))
    } else {
        Narrowing::TakePart(
            Value::Array(union),
            format!("{} still holds", left_out.join(", ")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{KeyPath, spec};
    use serde_json::json;

    fn judge(key: &str, base: Value, asked: Value) -> Narrowing {
        let spec = spec(&KeyPath::plain(key)).unwrap();
        narrow(spec, (!base.is_null()).then_some(&base), &asked)
    }

    fn taken(key: &str, base: Value, asked: Value) -> Option<Value> {
        match judge(key, base, asked) {
            Narrowing::Take(value) | Narrowing::TakePart(value, _) => Some(value),
            Narrowing::Nothing | Narrowing::Refuse(_) => None,
        }
    }

    #[test]
    fn an_empty_tool_list_is_never_the_outcome_of_narrowing() {
        let key = "tools.enabled";
        assert_eq!(
            taken(key, json!([]), json!(["read"])),
            Some(json!(["read"]))
        );
        assert_eq!(
            taken(key, json!(["read", "glob"]), json!(["glob", "shell"])),
            Some(json!(["glob"]))
        );
        assert_eq!(taken(key, json!(["read"]), json!(["shell"])), None);
        assert_eq!(taken(key, json!(["read"]), json!([])), None);
    }

    #[test]
    fn programs_and_hosts_are_only_taken_out() {
        let key = "policy.shell.allow";
        assert_eq!(
            taken(key, json!(["git", "ls"]), json!(["git", "npm", "*"])),
            Some(json!(["git"]))
        );
        assert_eq!(
            taken(key, json!(["*"]), json!(["npm"])),
            Some(json!(["npm"]))
        );
        assert_eq!(taken(key, json!(["git"]), json!([])), Some(json!([])));
        assert_eq!(taken(key, json!([]), json!(["git"])), Some(json!([])));
    }

    #[test]
    fn switches_go_one_way() {
        assert_eq!(
            taken("policy.shell.enabled", json!(true), json!(false)),
            Some(json!(false))
        );
        assert_eq!(
            taken("policy.network.enabled", json!(false), json!(true)),
            None
        );
    }

    #[test]
    fn limits_only_fall() {
        let key = "policy.max_read_bytes";
        assert_eq!(taken(key, json!(100), json!(99)), Some(json!(99)));
        assert_eq!(judge(key, json!(100), json!(100)), Narrowing::Nothing);
        assert_eq!(taken(key, json!(100), json!(101)), None);
        for key in [
            "budget.usd",
            "budget.turn.tokens",
            "budget.harness.wall_secs",
        ] {
            assert_eq!(taken(key, json!(null), json!(5)), Some(json!(5)));
            assert_eq!(taken(key, json!(5), json!(4)), Some(json!(4)));
            assert_eq!(taken(key, json!(5), json!(6)), None);
        }
        assert_eq!(
            taken("budget.usd", json!(0.5), json!(0.4)),
            Some(json!(0.4))
        );
    }

    #[test]
    fn roots_are_taken_out_but_never_replaced_by_something_inside() {
        let key = "policy.allowed_write_roots";
        assert_eq!(
            taken(key, json!([".", "/data"]), json!(["./"])),
            Some(json!(["./"]))
        );
        assert_eq!(taken(key, json!(["."]), json!(["build"])), Some(json!([])));
        assert_eq!(
            taken(key, json!(["."]), json!(["..", "/"])),
            Some(json!([]))
        );
        let key = "policy.allowed_read_roots";
        assert_eq!(taken(key, json!([]), json!(["."])), Some(json!(["."])));
        assert_eq!(taken(key, json!([]), json!(["/etc"])), None);
        assert_eq!(taken(key, json!(["docs"]), json!([])), None);
        assert_eq!(taken(key, json!(["docs"]), json!(["."])), None);
    }

    #[test]
    fn loopback_services_may_be_pinned_to_a_port() {
        let key = "policy.network.allowed_loopback";
        let any = json!([{"host": "localhost"}]);
        let one = json!([{"host": "localhost", "port": 80}]);
        assert_eq!(taken(key, any.clone(), one.clone()), Some(one.clone()));
        assert_eq!(taken(key, one, any), Some(json!([])));
    }

    #[test]
    fn sensitive_patterns_only_grow() {
        let key = "policy.sensitive_path_patterns";
        assert_eq!(taken(key, Value::Null, json!(["x"])), None);
        assert_eq!(
            taken(key, json!(["a"]), json!(["b"])),
            Some(json!(["a", "b"]))
        );
        assert_eq!(taken(key, json!(["a"]), json!([])), Some(json!(["a"])));
    }

    #[test]
    fn what_the_user_already_has_is_no_news() {
        assert_eq!(
            judge("models.default.model", json!("gpt-5"), json!("gpt-5")),
            Narrowing::Nothing
        );
        assert_eq!(
            judge("resources.skills.roots", json!(["a"]), json!([])),
            Narrowing::Nothing
        );
        assert!(matches!(
            judge("resources.skills.roots", json!(["a"]), json!(["a"])),
            Narrowing::Refuse(_)
        ));
        assert!(matches!(
            judge("runtime.traces_dir", json!("t"), json!("t")),
            Narrowing::Refuse(_)
        ));
    }
}
