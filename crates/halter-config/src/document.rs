//! Reads one TOML document into its settings, each with its place, refusing what no key takes.

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::check::{Reason, ValueFault, check, expected, is_header_name, is_provider_name};
use crate::error::{ConfigError, Location, nearest, suggestion};
use crate::keys::{self, Found, KeyPath, KeySpec, Kind};
use crate::schema::OFFLINE_MODEL;
use crate::warning::ConfigWarning;

/// One key of a document with its value and the place of the key.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: KeyPath,
    pub(crate) spec: &'static KeySpec,
    pub(crate) value: Value,
    pub(crate) location: Location,
}

/// The settings of a document, in the order of the text.
pub(crate) fn parse(
    file: &Path,
    bytes: &[u8],
    warnings: &mut Vec<ConfigWarning>,
) -> Result<Vec<Entry>, ConfigError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        ConfigError::refused(
            "config_not_utf8",
            "the file is not valid UTF-8",
            "save the file as UTF-8",
        )
        .at(Some(location(file, bytes, error.valid_up_to())))
    })?;
    let document = Document { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        // Only the message: the error's own display quotes the line, which may hold a key.
        let message = error.message().replace('\n', ", ");
        let problem = format!("not valid TOML: {message}");
        let place = document.at(error.span().unwrap_or(0..0));
        let hint = "correct the TOML at that place";
        ConfigError::refused("config_syntax", problem, hint).at(Some(place))
    })?;
    let mut entries = Vec::new();
    document.walk(table.get_ref(), &KeyPath::root(), &mut entries, warnings)?;
    if !entries.iter().any(|entry| entry.spec.kind == Kind::Version) {
        return Err(
            ConfigError::value("version", "is missing", "start the file with version = 1")
                .at(Some(document.at(0..0))),
        );
    }
    Ok(entries)
}

struct Document<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Document<'_> {
    fn at(&self, span: Range<usize>) -> Location {
        location(self.file, self.text.as_bytes(), span.start)
    }

    fn walk(
        &self,
        table: &DeTable<'_>,
        prefix: &KeyPath,
        entries: &mut Vec<Entry>,
        warnings: &mut Vec<ConfigWarning>,
    ) -> Result<(), ConfigError> {
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in rows {
            self.check_service_name(name, prefix)?;
            let spelled = prefix.child(name.get_ref());
            let key = keys::canonical(spelled.clone());
            if let Some(reason) = keys::retired(&key) {
                warnings.push(ConfigWarning::Retired {
                    key: key.to_string(),
                    location: self.at(name.span()),
                    reason,
                });
                continue;
            }
            match keys::find(&key) {
                Found::Nothing => return Err(self.unknown(name, prefix)),
                Found::Table => match value.get_ref() {
                    DeValue::Table(inner) => self.walk(inner, &key, entries, warnings)?,
                    other => {
                        return Err(ConfigError::wrong_type(&key, "a table", toml_type(other))
                            .at(Some(self.at(value.span()))));
                    }
                },
                Found::Leaf(spec) => {
                    let entry = self.leaf(name, value, key, spec)?;
                    if entries.iter().any(|earlier| earlier.key == entry.key) {
                        return Err(ConfigError::value(
                            &spelled,
                            format!("is another spelling of `{}`", entry.key),
                            "keep one of the two",
                        )
                        .at(Some(entry.location)));
                    }
                    entries.push(entry);
                }
            }
        }
        Ok(())
    }

    /// A table below `providers` is named by people, within limits.
    fn check_service_name(
        &self,
        name: &Spanned<impl AsRef<str>>,
        prefix: &KeyPath,
    ) -> Result<(), ConfigError> {
        let spelled = name.get_ref().as_ref();
        let is_service = *prefix == KeyPath::plain("providers");
        let (problem, hint) = match spelled {
            _ if !is_service => return Ok(()),
            OFFLINE_MODEL => (
                "is not a service that is reached",
                "leave the table out; the offline model needs none",
            ),
            name if is_provider_name(name) => return Ok(()),
            _ => (
                "is not a name for a service",
                "use letters, digits, hyphens and underscores",
            ),
        };
        Err(
            ConfigError::value(prefix.child(spelled), problem.to_owned(), hint.to_owned())
                .at(Some(self.at(name.span()))),
        )
    }

    fn leaf(
        &self,
        name: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        key: KeyPath,
        spec: &'static KeySpec,
    ) -> Result<Entry, ConfigError> {
        let is_header = spec.pattern.ends_with(".headers.<name>");
        if is_header && !is_header_name(name.get_ref().as_ref()) {
            return Err(ConfigError::value(
                &key,
                "is not the name of a request header",
                "use letters, digits and hyphens",
            )
            .at(Some(self.at(name.span()))));
        }
        let converted = self.convert(value, &key, &spec.kind)?;
        check(&spec.kind, &converted).map_err(|fault| {
            let span = element_span(value, &fault).unwrap_or_else(|| value.span());
            let mut place = self.at(span.clone());
            place.column += self.columns_into(&span, fault.offset);
            fault_error(fault, &key, Some(place))
        })?;
        Ok(Entry {
            location: self.at(name.span()),
            key,
            spec,
            value: converted,
        })
    }

    /// Columns from the start of a string to a character of its text; none where an escape or a
    /// line break keeps them apart.
    fn columns_into(&self, span: &Range<usize>, offset: Option<usize>) -> usize {
        let written = self.text.get(span.clone()).unwrap_or_default();
        let plain = !written.contains(['\\', '\n']) && !written.starts_with("'''");
        let plain = plain && !written.starts_with("\"\"\"");
        offset.filter(|_| plain).map_or(0, |offset| offset + 1)
    }

    fn unknown(&self, name: &Spanned<impl AsRef<str>>, prefix: &KeyPath) -> ConfigError {
        let spelled = name.get_ref().as_ref();
        let siblings = keys::children(prefix);
        let elsewhere = keys::homes_of(spelled);
        let hint = match (
            nearest(spelled, siblings.iter().copied()),
            elsewhere.first(),
        ) {
            (None, Some(home)) => format!("did you mean `{home}`?"),
            _ => suggestion(spelled, "keys here", &siblings),
        };
        ConfigError::refused(
            "config_unknown_key",
            format!("unknown key `{}`", prefix.child(spelled)),
            hint,
        )
        .at(Some(self.at(name.span())))
    }

    fn convert(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &KeyPath,
        kind: &Kind,
    ) -> Result<Value, ConfigError> {
        let number_error = || {
            ConfigError::value(
                key,
                "is not a number that can be used",
                "write a finite number of at most 63 bits",
            )
            .at(Some(self.at(value.span())))
        };
        Ok(match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map(Value::from)
                .map_err(|_| number_error())?,
            DeValue::Float(digits) => digits
                .as_str()
                .parse()
                .ok()
                .and_then(Number::from_f64)
                .map(Value::Number)
                .ok_or_else(number_error)?,
            DeValue::Array(elements) => elements
                .iter()
                .map(|element| self.convert(element, key, kind))
                .collect::<Result<_, _>>()?,
            DeValue::Table(table) => {
                let mut object = Map::new();
                for (name, inner) in table.iter() {
                    object.insert(name.get_ref().to_string(), self.convert(inner, key, kind)?);
                }
                Value::Object(object)
            }
            DeValue::Datetime(_) => {
                return Err(ConfigError::wrong_type(key, expected(kind), "a date")
                    .at(Some(self.at(value.span()))));
            }
        })
    }
}

/// The error that a fault in a value is.
pub(crate) fn fault_error(
    fault: ValueFault,
    key: &KeyPath,
    location: Option<Location>,
) -> ConfigError {
    let key = match fault.element {
        Some(index) => format!("{key}[{index}]"),
        None => key.to_string(),
    };
    match fault.reason {
        Reason::Type { expected, found } => {
            ConfigError::wrong_type(&key, expected, found).at(location)
        }
        Reason::Value { problem, hint } => ConfigError::value(&key, problem, hint).at(location),
    }
}

fn element_span(value: &Spanned<DeValue<'_>>, fault: &ValueFault) -> Option<Range<usize>> {
    let DeValue::Array(elements) = value.get_ref() else {
        return None;
    };
    Some(elements.get(fault.element?)?.span())
}

fn toml_type(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn location(file: &Path, bytes: &[u8], offset: usize) -> Location {
    let before = bytes.get(..offset.min(bytes.len())).unwrap_or(bytes);
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    let in_line = before.get(line_start..).unwrap_or_default();
    Location {
        file: file.to_path_buf(),
        line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
        column: String::from_utf8_lossy(in_line).chars().count() + 1,
    }
}
