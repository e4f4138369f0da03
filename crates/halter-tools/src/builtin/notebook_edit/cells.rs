//! A notebook as text in which cells are found and changed, so that all else
//! stays byte for byte.

use halter_protocol::ContentHash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::ops::Range;

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum CellType {
    Code,
    Markdown,
    Raw,
}

pub(super) struct Notebook<'a> {
    text: &'a str,
    cells: Vec<CellText<'a>>,
    /// Where the list of cells is, brackets included.
    list: Range<usize>,
    /// Cells have ids in this format.
    wants_ids: bool,
}

struct CellText<'a> {
    range: Range<usize>,
    id: Option<String>,
    kind: CellType,
    /// Where its source is, quotes or brackets included.
    source: Range<usize>,
    json: &'a str,
}

#[derive(Deserialize)]
struct NotebookShape<'a> {
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
    #[serde(borrow)]
    cells: &'a RawValue,
}

#[derive(Deserialize)]
struct CellShape<'a> {
    id: Option<String>,
    cell_type: CellType,
    #[serde(borrow)]
    source: &'a RawValue,
}

/// Why a text is no notebook.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotebookError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("its format is {0}")]
    Format(u64),
}

impl<'a> Notebook<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, NotebookError> {
        let shape: NotebookShape<'a> = serde_json::from_str(text)?;
        if shape.nbformat != 4 {
            return Err(NotebookError::Format(shape.nbformat));
        }
        let list: Vec<&'a RawValue> = serde_json::from_str(shape.cells.get())?;
        let mut cells = Vec::with_capacity(list.len());
        for cell in list {
            let json = cell.get();
            let shape: CellShape<'a> = serde_json::from_str(json)?;
            cells.push(CellText {
                range: range_in(text, json),
                id: shape.id,
                kind: shape.cell_type,
                source: range_in(text, shape.source.get()),
                json,
            });
        }
        Ok(Self {
            text,
            cells,
            list: range_in(text, shape.cells.get()),
            wants_ids: shape.nbformat_minor >= 5,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cell of that id; where no cell has it, the one at that place.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        let by_id = |cell: &CellText<'_>| cell.id.as_deref() == Some(id);
        self.cells.iter().position(by_id).or_else(|| {
            let place: usize = id.strip_prefix("cell-")?.parse().ok()?;
            let cell = self.cells.get(place)?;
            cell.id.is_none().then_some(place)
        })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        (0..self.cells.len()).map(|at| self.id(at))
    }

    pub(super) fn id(&self, at: usize) -> String {
        let id = self.cells.get(at).and_then(|cell| cell.id.clone());
        id.unwrap_or_else(|| format!("cell-{at}"))
    }

    /// The notebook with another source, and perhaps type, of a cell.
    pub(super) fn replace(
        &self,
        at: usize,
        source: &str,
        kind: Option<CellType>,
    ) -> Result<String, NotebookError> {
        let Some(cell) = self.cells.get(at) else {
            return Ok(self.text.to_owned());
        };
        match kind.filter(|kind| *kind != cell.kind) {
            None => {
                let indent = self.indent_of_line(cell.source.start);
                let old = self.text.get(cell.source.clone()).unwrap_or_default();
                let value = match old.starts_with('"') {
                    true => json!(source),
                    false => json!(lines_of(source)),
                };
                Ok(self.spliced(cell.source.clone(), &self.formatted(&value, &indent)))
            }
            Some(kind) => {
                let mut value: Map<String, Value> = serde_json::from_str(cell.json)?;
                value.insert("cell_type".to_owned(), json!(kind));
                value.insert("source".to_owned(), json!(lines_of(source)));
                // Only code has these, and must have them.
                for (key, empty) in [("execution_count", Value::Null), ("outputs", json!([]))] {
                    match kind {
                        CellType::Code => drop(value.insert(key.to_owned(), empty)),
                        _ => drop(value.shift_remove(key)),
                    }
                }
                let indent = self.indent_of_line(cell.range.start);
                let text = self.formatted(&Value::Object(value), &indent);
                Ok(self.spliced(cell.range.clone(), &text))
            }
        }
    }

    pub(super) fn delete(&self, at: usize) -> String {
        let before = at.checked_sub(1).and_then(|it| self.cells.get(it));
        let (cell, after) = (self.cells.get(at), self.cells.get(at + 1));
        let range = match (before, cell, after) {
            (_, None, _) => return self.text.to_owned(),
            // With the comma that follows it, or the one before it.
            (_, Some(cell), Some(after)) => cell.range.start..after.range.start,
            (Some(before), Some(cell), None) => before.range.end..cell.range.end,
            (None, Some(_), None) => return self.spliced(self.list.clone(), "[]"),
        };
        self.spliced(range, "")
    }

    /// The notebook with a cell more, and the id of that cell.
    pub(super) fn insert(&self, at: usize, source: &str, kind: CellType) -> (String, String) {
        let mut cell = Map::new();
        cell.insert("cell_type".to_owned(), json!(kind));
        if kind == CellType::Code {
            cell.insert("execution_count".to_owned(), Value::Null);
        }
        let id = match self.wants_ids {
            true => self.free_id(at, source),
            false => format!("cell-{at}"),
        };
        if self.wants_ids {
            cell.insert("id".to_owned(), json!(id));
        }
        cell.insert("metadata".to_owned(), json!({}));
        if kind == CellType::Code {
            cell.insert("outputs".to_owned(), json!([]));
        }
        cell.insert("source".to_owned(), json!(lines_of(source)));
        let cell = Value::Object(cell);

        let neighbour = self.cells.get(at).or(self.cells.last());
        let indent = match neighbour {
            Some(cell) => self.indent_of_line(cell.range.start),
            None => self.unit().repeat(2),
        };
        let text = self.formatted(&cell, &indent);
        let line = match self.unit().is_empty() {
            true => String::new(),
            false => format!("\n{indent}"),
        };
        let (range, new) = match (self.cells.get(at), self.cells.last()) {
            (Some(next), _) => (next.range.start..next.range.start, format!("{text},{line}")),
            (None, Some(last)) => (last.range.end..last.range.end, format!(",{line}{text}")),
            (None, None) => {
                let end = line.strip_suffix(self.unit()).unwrap_or_default();
                (self.list.clone(), format!("[{line}{text}{end}]"))
            }
        };
        (self.spliced(range, &new), id)
    }

    /// An id that no cell has, made of what is inserted where.
    fn free_id(&self, at: usize, source: &str) -> String {
        let mut number = at;
        loop {
            let hash = ContentHash::hex_of(format!("{number} {source}").as_bytes());
            let id: String = hash.chars().take(8).collect();
            if self.cells.iter().all(|cell| cell.id.as_ref() != Some(&id)) {
                return id;
            }
            number += 1;
        }
    }

    fn spliced(&self, range: Range<usize>, new: &str) -> String {
        let before = self.text.get(..range.start).unwrap_or_default();
        let after = self.text.get(range.end..).unwrap_or_default();
        [before, new, after].concat()
    }

    /// One step of indentation; empty where all is on one line.
    fn unit(&self) -> &'a str {
        let after_brace = self.text.trim_start().strip_prefix('{').unwrap_or_default();
        let Some((_, line)) = after_brace.split_once('\n') else {
            return "";
        };
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..blanks).unwrap_or_default()
    }

    /// The blanks that the line of a position starts with.
    fn indent_of_line(&self, position: usize) -> String {
        let before = self.text.get(..position).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..blanks).unwrap_or_default().to_owned()
    }

    /// A value as the notebook formats its own, for a line with that indent.
    fn formatted(&self, value: &Value, indent: &str) -> String {
        let unit = self.unit();
        if unit.is_empty() {
            return value.to_string();
        }
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        let written = value.serialize(&mut serializer);
        match (written, String::from_utf8(out)) {
            // Text in strings has its line breaks escaped.
            (Ok(()), Ok(text)) => text.replace('\n', &format!("\n{indent}")),
            _ => value.to_string(),
        }
    }
}

/// Where a part of a text is in it.
fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

/// The lines of a source, each with its ending, as notebooks keep them.
fn lines_of(source: &str) -> Vec<&str> {
    source.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Caf\u00e9"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "id": "sum",
   "metadata": {"odd":   "spacing"},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["3\n"]}
   ],
   "source": "1 + 2"
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

    fn parse(text: &str) -> Notebook<'_> {
        Notebook::parse(text).unwrap()
    }

    #[test]
    fn a_replaced_source_leaves_every_other_byte_alone() {
        let notebook = parse(NOTEBOOK);
        let edited = notebook.replace(1, "2 + 2\n4", None).unwrap();
        assert_eq!(edited, NOTEBOOK.replace("\"1 + 2\"", r#""2 + 2\n4""#));
        let edited = notebook.replace(0, "# Tea\ntime\n", None).unwrap();
        let lines = "\"# Tea\\n\",\n    \"time\\n\"";
        assert_eq!(edited, NOTEBOOK.replace(r##""# Caf\u00e9""##, lines));
    }

    #[test]
    fn another_type_takes_and_gives_what_only_code_has() {
        let edited = parse(NOTEBOOK)
            .replace(1, "sum", Some(CellType::Markdown))
            .unwrap();
        let value: Value = serde_json::from_str(&edited).unwrap();
        assert_eq!(
            value["cells"][1],
            json!({
                "cell_type": "markdown", "id": "sum",
                "metadata": {"odd": "spacing"}, "source": ["sum"],
            })
        );
        let edited = parse(NOTEBOOK)
            .replace(0, "1", Some(CellType::Code))
            .unwrap();
        let value: Value = serde_json::from_str(&edited).unwrap();
        assert_eq!(value["cells"][0]["outputs"], json!([]));
        assert_eq!(value["cells"][0]["execution_count"], Value::Null);
    }

    #[test]
    fn cells_are_inserted_and_deleted_again_without_a_trace() {
        for at in 0..=2 {
            let (longer, id) = parse(NOTEBOOK).insert(at, "x = 1\n", CellType::Code);
            let notebook = parse(&longer);
            assert_eq!(notebook.find(&id), Some(at), "{longer}");
            assert_eq!(notebook.delete(at), NOTEBOOK, "{at}");
        }
        let one = parse(NOTEBOOK).delete(0);
        let none = parse(&one).delete(0);
        assert_eq!(parse(&none).len(), 0);
        let (again, _) = parse(&none).insert(0, "x", CellType::Raw);
        assert!(
            again.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"raw\",\n"),
            "{again}"
        );
        assert!(again.contains("\n   ]\n  }\n ],\n \"metadata\""), "{again}");
    }

    #[test]
    fn cells_without_ids_go_by_their_place() {
        let old = r#"{"cells":[{"cell_type":"code","source":[]},{"cell_type":"raw","id":"cell-0","source":[]}],"nbformat":4,"nbformat_minor":4}"#;
        let notebook = parse(old);
        assert_eq!(notebook.ids().collect::<Vec<_>>(), ["cell-0", "cell-0"]);
        // An id counts before a place, and a cell that has one has no other name.
        assert_eq!(notebook.find("cell-0"), Some(1));
        assert_eq!(notebook.find("cell-1"), None);
        let (longer, id) = notebook.insert(1, "a\nb", CellType::Markdown);
        assert_eq!(id, "cell-1");
        let inserted = r#"{"cell_type":"markdown","metadata":{},"source":["a\n","b"]},"#;
        assert_eq!(
            longer,
            old.replace(
                r#"{"cell_type":"raw""#,
                &format!("{inserted}{}", r#"{"cell_type":"raw""#)
            )
        );
    }

    #[test]
    fn what_is_no_notebook_is_refused() {
        for text in [
            "",
            "[]",
            r#"{"nbformat":3,"cells":[]}"#,
            r#"{"nbformat":4}"#,
        ] {
            assert!(Notebook::parse(text).is_err(), "{text}");
        }
    }
}
