use super::super::{Collector, FileFilter, matcher};
use super::*;
use crate::builtin::testing::context;
use crate::builtin::walk::{HiddenNames, WalkPlan};
use serde_json::{Value, json};

/// Files of all kinds that a search meets, in directories whose order is not
/// that of their paths as text.
fn tree(root: &Path) {
    for directory in ["a", "a.b", "a/z", "deep/er/still", "ignored", "secret"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for n in 0..120_u32 {
        let directory = ["a", "a.b", "a/z", "deep/er/still", "ignored", "."][n as usize % 6];
        let body = match n % 5 {
            0 => "nothing here\n".repeat(n as usize),
            1 => format!(
                "one needle\n{}needle again\n",
                "filler\n".repeat(n as usize)
            ),
            2 => "needle\n".repeat(1 + n as usize % 7),
            3 => format!("needle\0binary {n}\n"),
            _ => format!("{}needle", "long ".repeat(1_000)),
        };
        std::fs::write(root.join(directory).join(format!("f{n}.txt")), body).unwrap();
    }
    std::fs::write(root.join(".ignore"), "ignored/\n").unwrap();
    std::fs::write(root.join("secret/id_rsa"), "needle\n").unwrap();
    std::fs::write(root.join(".env"), "needle\n").unwrap();
}

fn plan(hidden: &str) -> WalkPlan {
    WalkPlan {
        hidden: HiddenNames::named_in(hidden),
        types: None,
        max_depth: None,
    }
}

fn search(context: &ToolContext, root: &Path, input: &Value, with_threads: bool) -> Value {
    let input: GrepInput = serde_json::from_value(input.clone()).unwrap();
    let mut search = Search {
        context,
        input: &input,
        matcher: matcher(&input).unwrap(),
        searcher: searcher(&input),
        collector: Collector::new(wanted(&input)),
    };
    let filter = FileFilter::new(input.glob.as_deref(), None).unwrap();
    let hidden = input.glob.as_deref().unwrap_or("*");
    if with_threads {
        let walker = Walker::with_threads(context, root, plan(hidden)).unwrap();
        search.files_with_threads(walker, root, &filter).unwrap();
    } else {
        let walker = Walker::one_by_one(context, root, plan(hidden)).unwrap();
        search.files_one_by_one(walker, root, &filter).unwrap();
    }
    serde_json::to_value(search.collector.into_result()).unwrap()
}

#[test]
fn threads_find_the_same_entries_in_the_same_order() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    tree(&root);
    let context = context(&root);
    for hidden in ["*", ".env"] {
        let entries = |mut walker: Walker| {
            let mut paths = Vec::new();
            while let Some(entry) = walker.next_entry().unwrap() {
                paths.push(entry.into_path());
            }
            (paths, walker.sensitive(), walker.unreadable, walker.is_cut)
        };
        let one = entries(Walker::one_by_one(&context, &root, plan(hidden)).unwrap());
        let many = entries(Walker::with_threads(&context, &root, plan(hidden)).unwrap());
        assert!(one.0.len() > 100);
        assert_eq!(one, many, "{hidden}");
    }
}

#[test]
fn threads_give_the_same_result_of_every_page_and_mode() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    tree(&root);
    let context = context(&root);
    let mut inputs = Vec::new();
    for mode in ["content", "count", "files_with_matches"] {
        for (offset, max) in [(0, 1_000), (0, 1), (3, 10), (17, 40), (100_000, 5)] {
            inputs.push(json!({
                "pattern": "needle", "output_mode": mode, "offset": offset, "max_matches": max,
                "context_before": offset % 4, "context_after": max % 3,
            }));
        }
    }
    inputs.push(json!({"pattern": "needle", "glob": ".env"}));
    inputs.push(json!({"pattern": "needle\\nneedle", "multiline": true, "max_columns": 20}));
    inputs.push(json!({"pattern": "absent"}));
    for input in inputs {
        let one = search(&context, &root, &input, false);
        let many = search(&context, &root, &input, true);
        assert_eq!(one, many, "{input}");
    }
}

#[test]
fn a_cancelled_search_ends_with_threads_too() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    tree(&root);
    let context = context(&root);
    context.cancel.cancel();
    assert!(Walker::with_threads(&context, &root, plan("*")).is_err());
    let input: GrepInput = serde_json::from_value(json!({"pattern": "needle"})).unwrap();
    let counted = count(
        &context,
        &input,
        &matcher(&input).unwrap(),
        &[root.join("f5.txt")],
    );
    assert!(counted.is_err());
}
