//! How much work it is to compare a value with a schema, counted before it is
//! done.
//!
//! A schema of a few hundred bytes can have a checker look at one value more
//! often than there is time, or call itself until no stack is left: it refers
//! to the same part twice, that part to another one twice, and so on. The walk
//! here goes wherever a checker goes, and stops when it was too much.

use crate::limits::{CHECK_DEPTH, CHECK_STEPS};
use serde_json::{Map, Value};

/// Bytes of a text that a keyword looks at in one step.
const STEP_BYTES: usize = 64;

/// What a pattern costs that may try again and again.
const BACKTRACKING_STEPS: usize = 1_000;

/// What a pattern costs that reads a text once.
const PATTERN_STEPS: usize = 5;

/// How often a checker goes through the choices of a schema that says what may
/// stand beside them: to compare, and to learn what they have named.
const UNEVALUATED_ROUNDS: usize = 3;

/// Where the definitions of the dialects themselves are, which a schema may
/// refer to and a checker has at hand.
const DIALECTS: [&str; 2] = ["https://json-schema.org/", "http://json-schema.org/"];

/// What they cost for each part of a value.
const DIALECT_STEPS: usize = 50;

/// Keywords whose content is data.
const DATA: [&str; 5] = ["enum", "const", "default", "example", "examples"];

/// Keywords that hold schemas by names, which may be any.
const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// A schema, and what stands in it that others refer to.
pub(crate) struct Effort<'s> {
    /// The schema itself, then each part with an address of its own.
    documents: Vec<(&'s str, &'s Value)>,
    anchors: Vec<(&'s str, &'s Value)>,
    patterns: usize,
    steps_left: usize,
}

impl<'s> Effort<'s> {
    pub fn of(schema: &'s Value) -> Self {
        let mut effort = Self {
            documents: vec![(address_of(schema).unwrap_or_default(), schema)],
            anchors: Vec::new(),
            patterns: 0,
            steps_left: CHECK_STEPS,
        };
        effort.collect(schema);
        effort
    }

    /// How many patterns the schema has.
    pub fn patterns(&self) -> usize {
        self.patterns
    }

    /// Whether a value is compared with it in bounded time.
    pub fn fits(mut self, value: &Value) -> bool {
        let Some((_, schema)) = self.documents.first().copied() else {
            return true;
        };
        self.visit(schema, value, CHECK_DEPTH).is_some()
    }

    fn collect(&mut self, schema: &'s Value) {
        let mut left = vec![schema];
        while let Some(part) = left.pop() {
            let fields = match part {
                Value::Array(items) => {
                    left.extend(items);
                    continue;
                }
                Value::Object(fields) => fields,
                _ => continue,
            };
            if let Some(address) = address_of(part).filter(|_| !std::ptr::eq(part, schema)) {
                self.documents.push((address, part));
            }
            for name in ["$anchor", "$dynamicAnchor"] {
                let anchor = fields.get(name).and_then(Value::as_str);
                self.anchors.extend(anchor.map(|anchor| (anchor, part)));
            }
            for (keyword, inner) in fields {
                match (keyword.as_str(), inner) {
                    ("pattern", Value::String(_)) => self.patterns += 1,
                    (named, Value::Object(schemas)) if NAMED.contains(&named) => {
                        if named == "patternProperties" {
                            self.patterns += schemas.len();
                        }
                        left.extend(schemas.values());
                    }
                    (data, _) if DATA.contains(&data) => {}
                    (_, inner) => left.push(inner),
                }
            }
        }
    }

    /// `None` once it was too much.
    fn visit(&mut self, schema: &'s Value, value: &Value, depth: usize) -> Option<()> {
        let Value::Object(keywords) = schema else {
            return self.spend(1);
        };
        let depth = depth.checked_sub(1)?;
        self.spend(1 + keywords.len())?;
        let says_what_is_left = ["unevaluatedProperties", "unevaluatedItems"]
            .iter()
            .any(|keyword| keywords.contains_key(*keyword));
        let rounds = match says_what_is_left {
            true => UNEVALUATED_ROUNDS,
            false => 1,
        };
        for (keyword, inner) in keywords {
            for _ in 0..rounds {
                self.apply_here(keyword, inner, value, depth)?;
            }
            self.apply_inside(keyword, inner, value, depth)?;
        }
        Some(())
    }

    /// Keywords by which other schemas look at the same value.
    fn apply_here(
        &mut self,
        keyword: &str,
        inner: &'s Value,
        value: &Value,
        depth: usize,
    ) -> Option<()> {
        match (keyword, inner) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                if DIALECTS.iter().any(|it| reference.starts_with(it)) {
                    return self.spend_on_parts(value, depth);
                }
                let targets = self.targets(reference);
                if targets.is_empty() {
                    return None;
                }
                self.visit_each(targets, value, depth)
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                self.visit_each(branches, value, depth)
            }
            ("not" | "if" | "then" | "else", inner) => self.visit(inner, value, depth),
            ("dependentSchemas" | "dependencies", Value::Object(named)) => {
                let has = |name: &String| value.get(name).is_some();
                let applied = named.iter().filter(|(name, _)| has(name));
                self.visit_each(applied.map(|(_, schema)| schema), value, depth)
            }
            _ => Some(()),
        }
    }

    /// Keywords that look at the value, or by which schemas look at its parts.
    fn apply_inside(
        &mut self,
        keyword: &str,
        inner: &'s Value,
        value: &Value,
        depth: usize,
    ) -> Option<()> {
        match value {
            Value::Object(members) => self.apply_to_members(keyword, inner, members, depth),
            Value::Array(items) => self.apply_to_items(keyword, inner, items, depth),
            Value::String(text) => match (keyword, inner) {
                ("pattern", Value::String(pattern)) => self.spend(pattern_steps(pattern, text)),
                ("minLength" | "maxLength" | "format", _) => self.spend(text.len() / STEP_BYTES),
                ("enum", Value::Array(values)) => self.spend(values.len()),
                _ => Some(()),
            },
            _ => match (keyword, inner) {
                ("enum", Value::Array(values)) => self.spend(values.len()),
                _ => Some(()),
            },
        }
    }

    fn apply_to_members(
        &mut self,
        keyword: &str,
        inner: &'s Value,
        members: &Map<String, Value>,
        depth: usize,
    ) -> Option<()> {
        match (keyword, inner) {
            ("properties", Value::Object(named)) => {
                self.spend(named.len() / 8)?;
                for (name, schema) in named {
                    if let Some(member) = members.get(name) {
                        self.visit(schema, member, depth)?;
                    }
                }
            }
            ("patternProperties", Value::Object(named)) => {
                for (pattern, schema) in named {
                    for (name, member) in members {
                        self.spend(pattern_steps(pattern, name))?;
                        self.visit(schema, member, depth)?;
                    }
                }
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                for member in members.values() {
                    self.visit(schema, member, depth)?;
                }
            }
            ("propertyNames", schema) => {
                for name in members.keys() {
                    self.visit(schema, &Value::String(name.clone()), depth)?;
                }
            }
            ("enum", Value::Array(values)) => self.spend(values.len())?,
            _ => {}
        }
        Some(())
    }

    fn apply_to_items(
        &mut self,
        keyword: &str,
        inner: &'s Value,
        items: &[Value],
        depth: usize,
    ) -> Option<()> {
        match (keyword, inner) {
            ("items" | "prefixItems", Value::Array(tuple)) => {
                for (schema, item) in tuple.iter().zip(items) {
                    self.visit(schema, item, depth)?;
                }
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", schema) => {
                for item in items {
                    self.visit(schema, item, depth)?;
                }
            }
            ("uniqueItems", _) => self.spend(items.len())?,
            ("enum", Value::Array(values)) => self.spend(values.len())?,
            _ => {}
        }
        Some(())
    }

    fn visit_each(
        &mut self,
        schemas: impl IntoIterator<Item = &'s Value>,
        value: &Value,
        depth: usize,
    ) -> Option<()> {
        for schema in schemas {
            self.visit(schema, value, depth)?;
        }
        Some(())
    }

    fn spend_on_parts(&mut self, value: &Value, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.spend(DIALECT_STEPS)?;
        match value {
            Value::Array(items) => {
                for item in items {
                    self.spend_on_parts(item, depth)?;
                }
            }
            Value::Object(members) => {
                for member in members.values() {
                    self.spend_on_parts(member, depth)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.steps_left = self.steps_left.checked_sub(steps)?;
        Some(())
    }

    /// Whatever a reference may mean. Which part of a schema an address is
    /// relative to depends on where the reference stands: all that end alike are
    /// taken.
    fn targets(&self, reference: &str) -> Vec<&'s Value> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let documents = self.documents.iter().filter(|(own, _)| {
            let own = own.strip_suffix('#').unwrap_or(own);
            address.is_empty() || last_segment(own) == last_segment(address)
        });
        if !fragment.is_empty() && !fragment.starts_with('/') {
            let named = self.anchors.iter().filter(|(name, _)| *name == fragment);
            return named.map(|(_, part)| *part).collect();
        }
        let pointer = decoded(fragment);
        documents
            .filter_map(|(_, document)| document.pointer(&pointer))
            .collect()
    }
}

/// The address that a schema gives itself.
fn address_of(schema: &Value) -> Option<&str> {
    let address = schema.get("$id").or_else(|| schema.get("id"));
    address.and_then(Value::as_str)
}

fn last_segment(address: &str) -> &str {
    address.rsplit_once('/').map_or(address, |(_, last)| last)
}

fn pattern_steps(pattern: &str, text: &str) -> usize {
    let base = match tries_again(pattern) {
        true => BACKTRACKING_STEPS,
        false => PATTERN_STEPS,
    };
    base + text.len() / STEP_BYTES
}

/// Whether a pattern may have what is matched by trying: looking around,
/// referring back, not giving back.
fn tries_again(pattern: &str) -> bool {
    let signs = ["(?=", "(?!", "(?<", "(?>", "(?(", "++", "*+", "?+", "}+"];
    let escaped = |(at, _)| {
        let after: &str = pattern.get(at + 1..).unwrap_or_default();
        let letter = after.chars().next().unwrap_or_default();
        letter.is_ascii_alphanumeric() && !"dDwWsSbBnrtfvpPuUx".contains(letter)
    };
    signs.iter().any(|sign| pattern.contains(sign)) || pattern.match_indices('\\').any(escaped)
}

/// A fragment of an address without its percent signs.
fn decoded(fragment: &str) -> String {
    let mut bytes = fragment.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut rest = bytes.clone();
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let code = match (byte, digit(rest.next()), digit(rest.next())) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        if code.is_some() {
            bytes = rest;
        }
        plain.push(code.unwrap_or(byte));
    }
    String::from_utf8_lossy(&plain).into_owned()
}
