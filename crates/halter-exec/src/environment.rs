//! The environment of a child, given in full: nothing is inherited.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The variables a child sees. Values are secrets until proven otherwise:
/// `Debug` shows the names only. Cheap to clone until it is changed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment {
    variables: Arc<BTreeMap<OsString, OsString>>,
}

impl Environment {
    /// An environment without any variable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable, replacing an earlier value.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        Arc::make_mut(&mut self.variables).insert(name.into(), value.into());
        self
    }

    /// The same environment with one more variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set(name, value);
        self
    }

    /// Removes a variable; nothing happens if it is not there.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        if self.variables.contains_key(name.as_ref()) {
            Arc::make_mut(&mut self.variables).remove(name.as_ref());
        }
        self
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// How many variables there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Whether there is no variable at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_set()
            .entries(self.variables.keys())
            .finish()
    }
}

impl<Name: Into<OsString>, Value: Into<OsString>> FromIterator<(Name, Value)> for Environment {
    fn from_iter<Pairs: IntoIterator<Item = (Name, Value)>>(pairs: Pairs) -> Self {
        let pairs = pairs.into_iter();
        let variables: BTreeMap<_, _> = pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            variables: Arc::new(variables),
        }
    }
}

impl<Name: Into<OsString>, Value: Into<OsString>> Extend<(Name, Value)> for Environment {
    fn extend<Pairs: IntoIterator<Item = (Name, Value)>>(&mut self, pairs: Pairs) {
        for (name, value) in pairs {
            self.set(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;

    #[test]
    fn what_is_changed_in_a_copy_stays_there() {
        let first = Environment::new().with("A", "1").with("B", "2");
        let mut second = first.clone();
        second.set("A", "3").remove("B").remove("C");
        let values = |environment: &Environment| {
            ["A", "B"].map(|name| environment.get(name).map(|value| value.to_owned()))
        };
        assert_eq!(values(&first), [Some("1".into()), Some("2".into())]);
        assert_eq!(values(&second), [Some("3".into()), None]);
    }

    #[test]
    fn debug_shows_names_and_no_values() {
        let environment = Environment::new().with("TOKEN", "s3cret");
        let shown = format!("{environment:?}");
        assert_eq!(shown, r#"{"TOKEN"}"#);
    }
}
