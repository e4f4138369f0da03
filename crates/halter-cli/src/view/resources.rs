//! What of a session's resources is new.

use crate::limits::SHOWN_CHANGES;
use halter_protocol::ResourcesLoaded;

/// The changes in a line, the last of many left out; nothing if there are none.
pub fn resource_changes(loaded: &ResourcesLoaded) -> Option<String> {
    let shown = loaded.changes.iter().take(SHOWN_CHANGES);
    let shown: Vec<String> = shown.map(ToString::to_string).collect();
    let more = match loaded.changes.len().saturating_sub(SHOWN_CHANGES) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let since = "resources since the session last worked";
    (!shown.is_empty()).then(|| format!("{since}: {}{more}", shown.join(", ")))
}

/// What a session last worked with, in a line; nothing if that was not kept.
pub fn resource_counts(loaded: &ResourcesLoaded) -> Option<String> {
    let kept = loaded.kept()?;
    let counts = [
        ("skills", kept.skills.len()),
        ("agents", kept.agents.len()),
        ("commands", kept.commands.len()),
        ("output styles", kept.output_styles.len()),
        ("plugins", kept.plugins.len()),
    ];
    let counts = counts.map(|(kind, count)| format!("{count} {kind}"));
    Some(format!("{}: {}", loaded.revision, counts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{ResourceChange, ResourceChangeKind, ResourceKind};

    fn loaded(changes: usize) -> ResourcesLoaded {
        let change = |number: usize| ResourceChange {
            kind: ResourceKind::Skill,
            name: format!("s{number}"),
            change: ResourceChangeKind::Added,
        };
        ResourcesLoaded {
            revision: "r".into(),
            snapshot: None,
            changes: (0..changes).map(change).collect(),
        }
    }

    #[test]
    fn what_was_kept_is_counted() {
        assert_eq!(resource_counts(&loaded(1)), None, "not kept");
        let mut kept = loaded(0);
        let snapshot = r#"{"revision": "r", "plugins": {"p": {"name": "p", "root": "/p"}}}"#;
        kept.snapshot = Some(snapshot.into());
        let counts = "r: 0 skills, 0 agents, 0 commands, 0 output styles, 1 plugins";
        assert_eq!(resource_counts(&kept).as_deref(), Some(counts));
    }

    #[test]
    fn so_many_changes_are_named_and_the_rest_is_counted() {
        assert_eq!(resource_changes(&loaded(0)), None);
        let one = resource_changes(&loaded(1)).unwrap();
        assert!(one.ends_with("last worked: added skill 's0'"), "{one}");
        let all = resource_changes(&loaded(SHOWN_CHANGES)).unwrap();
        assert!(!all.contains("more"), "{all}");
        let cut = resource_changes(&loaded(SHOWN_CHANGES + 2)).unwrap();
        assert!(cut.ends_with(", and 2 more"), "{cut}");
    }
}
