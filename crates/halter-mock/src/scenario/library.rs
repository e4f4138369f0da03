//! The scenarios a service knows: those that come with it and those added.

use super::{Fault, Scenario, Script, ScriptPart, Step};
use crate::error::MockError;
use crate::limits::{
    MAX_DELAY_MS, MAX_FILLER_BYTES, MAX_NAME_CHARS, MAX_PARTS, MAX_SCENARIOS, MAX_STEPS,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The scripts that come with the crate.
const BUILT_IN: [(&str, &str); 4] = [
    ("basics", include_str!("../../scenarios/basics.toml")),
    ("moves", include_str!("../../scenarios/moves.toml")),
    ("faults", include_str!("../../scenarios/faults.toml")),
    ("dialects", include_str!("../../scenarios/dialects.toml")),
];

/// The scenario that answers when a prompt names none and the options set none.
pub(crate) const FALLBACK: &str = "default";

/// Named scenarios.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScenarioLibrary {
    scenarios: BTreeMap<String, Scenario>,
}

impl ScenarioLibrary {
    /// The scenarios that come with the crate.
    ///
    /// # Errors
    ///
    /// None in a released crate: a test reads them all.
    pub fn built_in() -> Result<Self, MockError> {
        let mut library = Self::default();
        for (_, text) in BUILT_IN {
            library.add_toml(text)?;
        }
        Ok(library)
    }

    /// Adds one scenario; one of the same name is replaced.
    ///
    /// # Errors
    ///
    /// [`MockError::Scenario`] when it breaks a limit or a rule.
    pub fn add(&mut self, name: &str, scenario: Scenario) -> Result<(), MockError> {
        check(name, &scenario).map_err(|reason| MockError::Scenario {
            name: name.to_owned(),
            reason,
        })?;
        if self.scenarios.len() >= MAX_SCENARIOS && !self.scenarios.contains_key(name) {
            return Err(MockError::Scenario {
                name: name.to_owned(),
                reason: format!("a library holds {MAX_SCENARIOS} scenarios at most"),
            });
        }
        self.scenarios.insert(name.to_owned(), scenario);
        Ok(())
    }

    /// Adds the scenarios of a TOML script.
    ///
    /// # Errors
    ///
    /// [`MockError::Script`] and [`MockError::Scenario`].
    pub fn add_toml(&mut self, text: &str) -> Result<(), MockError> {
        self.add_script(toml_edit::de::from_str(text).map_err(unreadable)?)
    }

    /// Adds the scenarios of a JSON script.
    ///
    /// # Errors
    ///
    /// [`MockError::Script`] and [`MockError::Scenario`].
    pub fn add_json(&mut self, text: &str) -> Result<(), MockError> {
        self.add_script(serde_json::from_str(text).map_err(unreadable)?)
    }

    /// Adds the scenarios of a file: JSON when its name ends in `.json`, else
    /// TOML.
    ///
    /// # Errors
    ///
    /// [`MockError::Read`], [`MockError::Script`] and [`MockError::Scenario`].
    pub fn add_file(&mut self, path: &Path) -> Result<(), MockError> {
        let text = std::fs::read_to_string(path).map_err(|source| MockError::Read {
            path: path.display().to_string(),
            source,
        })?;
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            self.add_json(&text)
        } else {
            self.add_toml(&text)
        }
    }

    /// Adds the scenarios of a script.
    ///
    /// # Errors
    ///
    /// [`MockError::Scenario`].
    pub fn add_script(&mut self, script: Script) -> Result<(), MockError> {
        for (name, scenario) in script.scenarios {
            self.add(&name, scenario)?;
        }
        Ok(())
    }

    /// The scenario of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Scenario> {
        self.scenarios.get(name)
    }

    /// All scenarios, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Scenario)> {
        self.scenarios
            .iter()
            .map(|(name, scenario)| (name.as_str(), scenario))
    }

    /// All names, comma separated.
    pub(crate) fn names(&self) -> String {
        self.scenarios
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn unreadable(error: impl std::fmt::Display) -> MockError {
    MockError::Script {
        reason: error.to_string(),
    }
}

fn check(name: &str, scenario: &Scenario) -> Result<(), String> {
    let named_well = (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte)
        });
    if !named_well {
        return Err(format!(
            "a name is 1 to {MAX_NAME_CHARS} lower-case letters, digits, `_` and `-`"
        ));
    }
    if !(1..=MAX_STEPS).contains(&scenario.steps.len()) {
        return Err(format!("a scenario has 1 to {MAX_STEPS} steps"));
    }
    for (index, step) in scenario.steps.iter().enumerate() {
        check_step(step).map_err(|reason| format!("step {}: {reason}", index + 1))?;
    }
    Ok(())
}

fn check_step(step: &Step) -> Result<(), String> {
    if step.parts.len() > MAX_PARTS {
        return Err(format!("a step has {MAX_PARTS} parts at most"));
    }
    for part in &step.parts {
        if let ScriptPart::Filler { bytes } = part
            && *bytes > MAX_FILLER_BYTES
        {
            return Err(format!("a filler has {MAX_FILLER_BYTES} bytes at most"));
        }
    }
    let delivery = &step.delivery;
    if delivery.first_byte_ms > MAX_DELAY_MS || delivery.gap_ms > MAX_DELAY_MS {
        return Err(format!("a delay is {MAX_DELAY_MS} ms at most"));
    }
    if delivery.write_bytes == Some(0) {
        return Err("`write_bytes` is at least 1".to_owned());
    }
    check_headers(step.headers.iter())?;
    let faults = step
        .fault
        .iter()
        .chain(step.fail_first.iter().map(|first| &first.fault));
    for fault in faults {
        if let Fault::Http(error) | Fault::ErrorEvent { error, .. } = fault {
            if !(400..=599).contains(&error.status) {
                return Err(format!("status {} is not an error", error.status));
            }
            check_headers(error.headers.iter())?;
        }
    }
    Ok(())
}

fn check_headers<'a>(
    mut headers: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), String> {
    let bad = headers.find(|(name, value)| {
        hyper::header::HeaderName::from_bytes(name.as_bytes()).is_err()
            || hyper::header::HeaderValue::from_str(value).is_err()
    });
    match bad {
        Some((name, _)) => Err(format!("`{name}` is not a header that can be sent")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::HttpFault;

    fn text_steps(count: usize) -> Scenario {
        Scenario::new("x", vec![Step::text("x"); count])
    }

    #[test]
    fn the_built_in_scripts_are_valid() {
        let library = ScenarioLibrary::built_in().unwrap();
        assert!(library.get(FALLBACK).is_some());
        assert!(
            library
                .iter()
                .all(|(_, scenario)| !scenario.description.is_empty())
        );
    }

    #[test]
    fn a_scenario_has_at_least_one_step_and_at_most_the_limit() {
        let mut library = ScenarioLibrary::default();
        assert!(library.add("none", text_steps(0)).is_err());
        assert!(library.add("most", text_steps(MAX_STEPS)).is_ok());
        assert!(library.add("more", text_steps(MAX_STEPS + 1)).is_err());
    }

    #[test]
    fn names_are_words_of_limited_length() {
        let mut library = ScenarioLibrary::default();
        assert!(
            library
                .add(&"a".repeat(MAX_NAME_CHARS), text_steps(1))
                .is_ok()
        );
        assert!(
            library
                .add(&"a".repeat(MAX_NAME_CHARS + 1), text_steps(1))
                .is_err()
        );
        assert!(library.add("Two Words", text_steps(1)).is_err());
    }

    #[test]
    fn parts_fillers_and_delays_are_bounded_at_their_edges() {
        let mut library = ScenarioLibrary::default();
        let mut with = |change: &dyn Fn(&mut Step)| {
            let mut step = Step::default();
            change(&mut step);
            library.add("x", Scenario::new("x", vec![step])).is_ok()
        };
        let filler = |bytes| ScriptPart::Filler { bytes };
        assert!(with(&|step| step.parts = vec![filler(1); MAX_PARTS]));
        assert!(!with(&|step| step.parts = vec![filler(1); MAX_PARTS + 1]));
        assert!(with(&|step| step.parts = vec![filler(MAX_FILLER_BYTES)]));
        assert!(!with(
            &|step| step.parts = vec![filler(MAX_FILLER_BYTES + 1)]
        ));
        assert!(with(&|step| step.delivery.gap_ms = MAX_DELAY_MS));
        assert!(!with(&|step| step.delivery.gap_ms = MAX_DELAY_MS + 1));
        assert!(!with(&|step| step.delivery.write_bytes = Some(0)));
    }

    #[test]
    fn a_library_is_bounded_but_may_replace() {
        let mut library = ScenarioLibrary::default();
        for index in 0..MAX_SCENARIOS {
            library.add(&format!("s{index}"), text_steps(1)).unwrap();
        }
        assert!(library.add("one-more", text_steps(1)).is_err());
        assert!(library.add("s0", text_steps(2)).is_ok());
    }

    #[test]
    fn an_error_fault_needs_an_error_status() {
        let mut library = ScenarioLibrary::default();
        let step = Step::default().with_fault(Fault::Http(HttpFault::default()));
        let error = library
            .add("x", Scenario::new("x", vec![step]))
            .unwrap_err();
        assert_eq!(error.code(), "mock_scenario");
    }

    #[test]
    fn a_misspelled_key_is_refused_with_its_name() {
        let error = ScenarioLibrary::default()
            .add_toml("[scenarios.x]\ndescription='d'\nsteps=[{pats=[]}]")
            .unwrap_err();
        assert!(error.to_string().contains("pats"), "{error}");
    }

    #[test]
    fn scripts_round_trip_through_json() {
        let library = ScenarioLibrary::built_in().unwrap();
        let script = Script {
            scenarios: library.scenarios.clone(),
        };
        let mut again = ScenarioLibrary::default();
        again
            .add_json(&serde_json::to_string(&script).unwrap())
            .unwrap();
        assert_eq!(again, library);
    }
}
