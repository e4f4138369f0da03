//! `notebook_edit`: cells of a Jupyter notebook.

mod cells;

use super::file_set::{FileSet, change_files, diff_files};
use super::support::{CHANGES, path_in};
use crate::context::ToolContext;
use crate::typed::TypedTool;
use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use cells::{CellType, Notebook};
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Replace, insert or delete a cell of a Jupyter notebook. Outputs stay as they
/// are.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct NotebookEditInput {
    /// The `.ipynb` file.
    #[schemars(length(min = 1))]
    path: String,
    /// The cell's id; of a cell without one, `cell-N`, N counted from 0. A new
    /// cell comes after it, or first if left out.
    #[schemars(length(min = 1))]
    cell_id: Option<String>,
    /// The new source; not for `delete`.
    new_source: Option<String>,
    /// Needed to insert; otherwise the cell keeps its own.
    cell_type: Option<CellType>,
    /// `replace` if left out.
    #[serde(default)]
    edit_mode: EditMode,
}

#[derive(Deserialize, JsonSchema, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

pub(crate) struct NotebookEditTool;

#[async_trait]
impl TypedTool for NotebookEditTool {
    type Input = NotebookEditInput;
    const NAME: &'static str = "notebook_edit";
    const SUMMARY: Option<&'static str> = Some("edit a Jupyter notebook");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let path = path_in(input, "path").into_iter();
        path.map(|path| Action::Write { path }).collect()
    }

    async fn diff(&self, context: ToolContext, input: NotebookEditInput) -> Option<String> {
        diff_files(context, move |files| plan(files, &input).map(drop)).await
    }

    async fn run(
        &self,
        context: ToolContext,
        input: NotebookEditInput,
    ) -> anyhow::Result<ToolResult> {
        let paths = vec![input.path.clone()];
        let (edited, files) =
            change_files(context, paths, move |files| plan(files, &input)).await?;
        Ok(ToolResult::json(json!({
            "cell_id": edited.cell_id,
            "cells": edited.cells,
            "files": files,
        })))
    }
}

struct EditedNotebook {
    /// The cell that was replaced, inserted or deleted.
    cell_id: String,
    /// How many there are now.
    cells: usize,
}

fn plan(files: &mut FileSet, input: &NotebookEditInput) -> anyhow::Result<EditedNotebook> {
    let key = files.open(&input.path)?;
    let path = files.shown(&key);
    let text = files.text(&key)?;
    let notebook = Notebook::parse(text).with_context(|| {
        format!("'{path}' is not a notebook of format 4, with a list of cells; use `edit`")
    })?;
    let source = || {
        let source = input.new_source.as_deref();
        source.ok_or_else(|| anyhow!("`new_source` is needed unless a cell is deleted"))
    };
    let wanted = input.cell_id.as_deref();
    let count = notebook.len();
    let needed = || {
        let id = wanted.ok_or_else(|| anyhow!("`cell_id` is needed to say which cell"))?;
        notebook
            .find(id)
            .ok_or_else(|| no_cell(&notebook, &path, id))
    };
    let (edited, cell_id, cells) = match input.edit_mode {
        EditMode::Replace => {
            let at = needed()?;
            let edited = notebook.replace(at, source()?, input.cell_type)?;
            (edited, notebook.id(at), count)
        }
        EditMode::Delete => {
            if input.new_source.is_some() {
                bail!("`new_source` is not for `delete`: leave it out, or replace the cell");
            }
            let at = needed()?;
            (notebook.delete(at), notebook.id(at), count - 1)
        }
        EditMode::Insert => {
            let kind = input.cell_type.ok_or_else(|| {
                anyhow!("`cell_type` is needed to insert a cell: `code`, `markdown` or `raw`")
            })?;
            let at = match wanted {
                Some(_) => needed()? + 1,
                None => 0,
            };
            let (edited, id) = notebook.insert(at, source()?, kind);
            (edited, id, count + 1)
        }
    };
    Notebook::parse(&edited).context("the edit would have broken the notebook")?;
    files.put(&key, edited)?;
    Ok(EditedNotebook { cell_id, cells })
}

fn no_cell(notebook: &Notebook<'_>, path: &str, id: &str) -> anyhow::Error {
    let ids = notebook.ids().take(LISTED_CELLS).collect::<Vec<_>>();
    let more = notebook.len().saturating_sub(LISTED_CELLS);
    let listed = match (ids.is_empty(), more) {
        (true, _) => "it has no cells; insert one".to_owned(),
        (_, 0) => format!("its cells: {}", ids.join(", ")),
        (_, more) => format!("its cells: {} and {more} more", ids.join(", ")),
    };
    anyhow!("'{path}' has no cell '{id}'; {listed}")
}

/// Cells that a refusal names.
const LISTED_CELLS: usize = 40;
