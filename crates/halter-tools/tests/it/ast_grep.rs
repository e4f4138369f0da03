//! `ast_grep`.

use crate::support::Workspace;
use halter_protocol::{Action, ToolCall, ToolErrorCode};
use halter_tools::limits::{
    AST_DEFAULT_MATCHES, AST_DEPTH, AST_FILE_BYTES, AST_LISTED_FILES, AST_MAX_MATCHES,
    AST_PATTERNS, AST_REPLACEMENTS, AST_RESULT_BYTES,
};
use serde_json::{Value, json};

fn find(pattern: &str) -> Value {
    json!({"action": "find", "patterns": [pattern]})
}

fn replace(pattern: &str, rewrite: &str) -> Value {
    json!({"action": "replace", "rewrites": {pattern: rewrite}, "dry_run": false})
}

/// The arguments with more fields.
fn with(mut arguments: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    arguments
}

fn texts(result: &Value) -> Vec<&str> {
    let rows = result["matches"].as_array().unwrap();
    rows.iter()
        .map(|row| row["text"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn code_is_found_in_every_language_whatever_its_layout() {
    for (name, source, pattern, found) in [
        (
            "a.rs",
            "fn f() { g( 1,\n  2 ) }",
            "g($A, $B)",
            "g( 1,\n  2 )",
        ),
        (
            "a.ts",
            "const x: number = f(1)",
            "const $N: $T = $V",
            "const x: number = f(1)",
        ),
        ("a.tsx", "const x = <B a={1}/>", "<B a={$V}/>", "<B a={1}/>"),
        ("a.js", "if (a == b) { c() }", "$A == $B", "a == b"),
        ("a.jsx", "x = <B/>", "<B/>", "<B/>"),
        (
            "a.py",
            "def f(x):\n    return g(x)\n",
            "return $V",
            "return g(x)",
        ),
        (
            "a.go",
            "package a\nfunc f() { fmt.Println(1) }\n",
            "func $F() { $$$B }",
            "func f() { fmt.Println(1) }",
        ),
        (
            "A.java",
            "class A { void f() { g(1); } }",
            "g($A);",
            "g(1);",
        ),
        (
            "a.c",
            "int f(void) { return g(1); }",
            "return $V;",
            "return g(1);",
        ),
        (
            "a.cpp",
            "auto x = std::make_unique<T>(1);",
            "std::make_unique<$T>($V)",
            "std::make_unique<T>(1)",
        ),
        ("a.sh", "if true; then echo hi; fi\n", "echo $A", "echo hi"),
    ] {
        let workspace = Workspace::new();
        workspace.put(name, source);
        let result = workspace.ok("ast_grep", find(pattern)).await;
        assert_eq!(texts(&result), [found], "{name}: {result}");
        assert_eq!(result["matches"][0]["path"], name);
        assert_eq!(result["parse_errors"], Value::Null, "{name}");
    }
}

#[tokio::test]
async fn a_match_says_where_it_is_and_what_its_variables_are() {
    let workspace = Workspace::new();
    workspace.put("src/a.ts", "one();\nlog(a, b,\n  c);\n");
    let arguments = with(find("log($FIRST, $$$REST)"), json!({"include_meta": true}));
    let result = workspace.ok("ast_grep", arguments).await;
    assert_eq!(
        result,
        json!({
            "matches": [{
                "path": "src/a.ts", "line_number": 2, "end_line_number": 3,
                "text": "log(a, b,\n  c)", "meta": {"FIRST": "a", "REST": ["b", "c"]},
            }],
            "total_matches": 1, "files_searched": 1, "files_with_matches": 1, "truncated": false,
        })
    );
}

#[tokio::test]
async fn several_patterns_are_told_apart() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f(1); g(2);");
    let arguments = json!({"action": "find", "patterns": ["g($A)", "f($A)"]});
    let result = workspace.ok("ast_grep", arguments).await;
    assert_eq!(texts(&result), ["f(1)", "g(2)"]);
    assert_eq!(result["matches"][0]["pattern"], "f($A)");
}

#[tokio::test]
async fn files_are_chosen_by_path_glob_and_language() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f(1)");
    workspace.put("sub/b.ts", "f(2)");
    workspace.put("sub/c.py", "f(3)");
    workspace.put(".gitignore", "ignored.js\n");
    workspace.put("ignored.js", "f(5)");
    workspace.put(".hidden/e.js", "f(6)");
    workspace.put("notes.txt", "f(7)");
    for (more, expected) in [
        (json!({}), vec!["f(1)", "f(2)", "f(3)"]),
        (json!({"path": "sub"}), vec!["f(2)", "f(3)"]),
        (json!({"path": "sub/b.ts"}), vec!["f(2)"]),
        (json!({"glob": "*.py"}), vec!["f(3)"]),
        (json!({"glob": "!*.py"}), vec!["f(1)", "f(2)"]),
        (json!({"lang": "python"}), vec!["f(3)"]),
        (
            json!({"path": "notes.txt", "lang": "javascript"}),
            vec!["f(7)"],
        ),
        (json!({"glob": ".hidden/*.js"}), vec!["f(6)"]),
    ] {
        let shown = more.to_string();
        let result = workspace.ok("ast_grep", with(find("f($A)"), more)).await;
        assert_eq!(texts(&result), expected, "{shown}");
    }
    let arguments = with(find("f($A)"), json!({"path": "notes.txt"}));
    let message = workspace.failure("ast_grep", arguments).await;
    assert!(message.contains("set `lang`"), "{message}");
}

#[tokio::test]
async fn a_selector_picks_the_node_that_is_meant() {
    let workspace = Workspace::new();
    workspace.put("a.ts", "class A { b = 123; }\nb = 123;\n");
    let arguments = with(
        find("class X { $N = 123 }"),
        json!({"selector": "public_field_definition"}),
    );
    let result = workspace.ok("ast_grep", arguments).await;
    assert_eq!(texts(&result), ["b = 123"]);
    assert_eq!(result["matches"][0]["line_number"], 1);
    workspace.put("b.h", "int x = f(4);");
    for language in ["c", "cpp"] {
        let more = json!({"selector": "call_expression", "lang": language});
        let result = workspace.ok("ast_grep", with(find("f($A);"), more)).await;
        assert_eq!(texts(&result), ["f(4)"], "{language}");
    }
    let arguments = with(
        find("f()"),
        json!({"selector": "nonsense", "lang": "typescript"}),
    );
    let message = workspace.failure("ast_grep", arguments).await;
    assert!(message.contains("kind `selector` names"), "{message}");
}

#[tokio::test]
async fn strictness_says_what_may_differ() {
    let workspace = Workspace::new();
    workspace.put(
        "a.js",
        "f(a, b);\nf(a, /* why */ b);\nf(a, b,);\ng(x, y);\n",
    );
    for (strictness, found) in [("cst", 1), ("smart", 3), ("signature", 4)] {
        let arguments = with(find("f(a, b)"), json!({"strictness": strictness}));
        let result = workspace.ok("ast_grep", arguments).await;
        assert_eq!(result["total_matches"], found, "{strictness}: {result}");
    }
}

#[tokio::test]
async fn a_pattern_that_is_no_code_is_explained() {
    let workspace = Workspace::new();
    workspace.put("a.rs", "fn main() {}");
    for (pattern, expected) in [
        ("fn (", "is not code in rust"),
        ("a; b", "several pieces"),
        ("$$$A", "matches nothing"),
    ] {
        let message = workspace.failure("ast_grep", find(pattern)).await;
        assert!(message.contains(expected), "{pattern}: {message}");
    }
    let arguments = replace("f($A)", "g($B)");
    let message = workspace.failure("ast_grep", arguments).await;
    assert!(message.contains("uses `$B`, which its pattern does not have"));
    for arguments in [
        json!({"action": "find"}),
        json!({"action": "find", "rewrites": {"a": "b"}}),
        json!({"action": "replace", "patterns": ["a"]}),
    ] {
        let message = workspace.failure("ast_grep", arguments).await;
        assert!(message.contains("needs"), "{message}");
    }
}

#[tokio::test]
async fn a_pattern_of_one_language_is_not_held_against_others() {
    let workspace = Workspace::new();
    workspace.put("a.rs", "fn main() { let x: u8 = 1; }");
    workspace.put("b.py", "x = 1\n");
    let result = workspace.ok("ast_grep", find("let $N: $T = $V;")).await;
    assert_eq!(texts(&result), ["let x: u8 = 1;"]);
    let told = result["pattern_errors"][0].as_str().unwrap();
    assert!(told.contains("python"), "{told}");
}

#[tokio::test]
async fn matches_come_in_pages() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f(1); f(2); f(3);");
    workspace.put("b.js", "f(4);");
    let page = |offset: u64| with(find("f($A)"), json!({"limit": 2, "offset": offset}));
    let first = workspace.ok("ast_grep", page(0)).await;
    assert_eq!(texts(&first), ["f(1)", "f(2)"]);
    assert_eq!(
        (
            &first["next_offset"],
            &first["total_matches"],
            &first["truncated"]
        ),
        (&json!(2), &json!(4), &json!(true))
    );
    let second = workspace.ok("ast_grep", page(2)).await;
    assert_eq!(texts(&second), ["f(3)", "f(4)"]);
    assert_eq!(second["next_offset"], Value::Null);
}

#[tokio::test]
async fn what_is_listed_is_bounded() {
    let workspace = Workspace::new();
    let long = format!("f(\"{}\");\n", "x".repeat(3_000));
    workspace.put("a.js", long.repeat(200));
    let arguments = with(find("f($A)"), json!({"limit": AST_MAX_MATCHES}));
    let result = workspace.ok("ast_grep", arguments).await;
    assert_eq!(result["total_matches"], 200);
    assert!(result["next_offset"].is_number(), "cut by size");
    let sizes = |result: &Value| -> Vec<usize> {
        let rows = result["matches"].as_array().unwrap();
        rows.iter().map(|row| row.to_string().len()).collect()
    };
    let (listed, one) = (sizes(&result).iter().sum::<usize>(), sizes(&result)[0]);
    assert!(listed <= AST_RESULT_BYTES, "{listed}");
    assert!(
        listed + one + 10 > AST_RESULT_BYTES,
        "as many as fit: {listed}"
    );
    assert!(texts(&result)[0].ends_with("[cut: 2000 of 3005 bytes shown]"));

    // One match alone may stand for more than is listed.
    let arguments = "1,".repeat(AST_RESULT_BYTES / 4);
    workspace.put("a.js", format!("f(0); f({arguments}2); f(3);"));
    let page = |offset: u64| {
        let more = json!({"include_meta": true, "offset": offset});
        with(find("f($$$A)"), more)
    };
    let first = workspace.ok("ast_grep", page(0)).await;
    assert_eq!(
        (texts(&first), &first["next_offset"]),
        (vec!["f(0)"], &json!(1))
    );
    let second = workspace.ok("ast_grep", page(1)).await;
    assert!(sizes(&second).iter().sum::<usize>() <= AST_RESULT_BYTES);
    assert_eq!(second["matches"][0]["meta"], "left out, it is too long");
    assert_eq!(second["matches"][1]["meta"], json!({"A": ["3"]}));
}

#[tokio::test]
async fn some_matches_are_listed_when_no_limit_is_given() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f(1);\n".repeat(AST_DEFAULT_MATCHES + 1));
    let result = workspace.ok("ast_grep", find("f($A)")).await;
    assert_eq!(texts(&result).len(), AST_DEFAULT_MATCHES);
    assert_eq!(result["next_offset"], AST_DEFAULT_MATCHES);
    assert_eq!(result["total_matches"], AST_DEFAULT_MATCHES + 1);
    let too_many = with(find("f($A)"), json!({"limit": AST_MAX_MATCHES + 1}));
    let code = ToolErrorCode::InvalidArguments;
    workspace.error("ast_grep", too_many, code).await;
}

#[tokio::test]
async fn so_many_patterns_are_searched_for_and_no_more() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f0(1);");
    let patterns = |count: usize| (0..count).map(|index| format!("f{index}($A)"));
    let finds = |count: usize| {
        let patterns: Vec<_> = patterns(count).collect();
        json!({"action": "find", "patterns": patterns})
    };
    let replaces = |count: usize| {
        let rewrites = patterns(count).map(|it| (it, json!("g($A)")));
        let rewrites = Value::Object(rewrites.collect());
        json!({"action": "replace", "rewrites": rewrites})
    };
    let code = ToolErrorCode::InvalidArguments;
    for beyond in [finds(AST_PATTERNS + 1), replaces(AST_PATTERNS + 1)] {
        workspace.error("ast_grep", beyond, code.clone()).await;
    }
    let found = workspace.ok("ast_grep", finds(AST_PATTERNS)).await;
    assert_eq!(texts(&found), ["f0(1)"]);
    let shown = workspace.ok("ast_grep", replaces(AST_PATTERNS)).await;
    assert_eq!(shown["total_replacements"], 1);
}

#[tokio::test]
async fn odd_files_are_left_out_and_counted() {
    let workspace = Workspace::new();
    let padding = |bytes: u64| format!("f(1)//{}", "x".repeat(bytes as usize - 6));
    workspace.put("fits.js", padding(AST_FILE_BYTES));
    workspace.put("large.js", padding(AST_FILE_BYTES + 1));
    workspace.put("latin.js", b"f('caf\xe9')");
    workspace.put(
        "deep.js",
        format!("f({}{})", "[".repeat(AST_DEPTH), "]".repeat(AST_DEPTH)),
    );
    workspace.put("id_rsa.js", "f(1)");
    let result = workspace.ok("ast_grep", find("f($A)")).await;
    assert_eq!(texts(&result), ["f(1)", "f(1)"]);
    assert_eq!(
        result["skipped"],
        json!({"too_large": 1, "not_text": 1, "too_deep": 1})
    );
}

/// Comparing two trees goes down both: that must not end the process.
#[tokio::test]
async fn code_that_is_nested_deeply_is_compared() {
    let workspace = Workspace::new();
    let depth = AST_DEPTH / 2 - 20;
    let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    workspace.put("a.js", format!("x = {nested} == {nested};"));
    let result = workspace.ok("ast_grep", find("$A == $A")).await;
    assert_eq!(result["total_matches"], 1, "{result}");
}

#[tokio::test]
async fn syntax_errors_are_reported_with_their_line() {
    let workspace = Workspace::new();
    for index in 0..AST_LISTED_FILES + 2 {
        workspace.put(&format!("{index:02}.js"), "f(1);\nlet = = ;\n");
    }
    let result = workspace.ok("ast_grep", find("f($A)")).await;
    assert_eq!(result["total_matches"], AST_LISTED_FILES + 2);
    assert_eq!(result["parse_errors"][0], "00.js:2");
    let listed = result["parse_errors"].as_array().unwrap().len();
    assert_eq!(listed, AST_LISTED_FILES);
    assert_eq!(result["more_parse_errors"], 2);

    let arguments = with(
        replace("f($A)", "g($A)"),
        json!({"fail_on_parse_error": true}),
    );
    let message = workspace.failure("ast_grep", arguments).await;
    assert!(message.contains("00.js:2"), "{message}");
    assert_eq!(workspace.get("00.js"), "f(1);\nlet = = ;\n");
    workspace.ok("ast_grep", replace("f($A)", "g($A)")).await;
    assert_eq!(workspace.get("00.js"), "g(1);\nlet = = ;\n");
}

#[tokio::test]
async fn a_rewrite_is_shown_before_it_is_made() {
    let workspace = Workspace::new();
    workspace.put("a.py", "x = old(1, 2)\ny = old(3, 4)\n");
    let mut arguments = replace("old($A, $B)", "new($B, $A)");
    arguments.as_object_mut().unwrap().remove("dry_run");
    let shown = workspace.ok("ast_grep", arguments.clone()).await;
    assert_eq!(
        shown,
        json!({
            "changes": [
                {"path": "a.py", "line_number": 1, "before": "old(1, 2)", "after": "new(2, 1)"},
                {"path": "a.py", "line_number": 2, "before": "old(3, 4)", "after": "new(4, 3)"},
            ],
            "file_changes": [{"path": "a.py", "replacements": 2}],
            "total_replacements": 2, "files_touched": 1, "limit_reached": false,
            "truncated": false, "applied": false,
        })
    );
    assert_eq!(workspace.get("a.py"), "x = old(1, 2)\ny = old(3, 4)\n");

    arguments["dry_run"] = false.into();
    let call = ToolCall {
        id: "call".into(),
        name: "ast_grep".into(),
        arguments: arguments.clone(),
    };
    let tool = workspace.tools.get("ast_grep").unwrap();
    let diff = tool.diff(workspace.context(), &call.arguments).await;
    assert_eq!(
        diff.unwrap(),
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-x = old(1, 2)\n-y = old(3, 4)\n\
         +x = new(2, 1)\n+y = new(4, 3)\n"
    );
    let made = workspace.ok("ast_grep", arguments).await;
    assert_eq!(made["applied"], true);
    assert_eq!(made["file_changes"][0]["change"], "changed");
    assert_eq!(workspace.get("a.py"), "x = new(2, 1)\ny = new(4, 3)\n");

    // The session has seen what it wrote.
    workspace.put("a.py", "x = new(0, 0)\n");
    let again = replace("new($A, $B)", "old($A, $B)");
    let message = workspace.failure("ast_grep", again).await;
    assert!(message.contains("has changed since"), "{message}");
}

#[tokio::test]
async fn outer_matches_are_rewritten_and_the_rest_is_kept() {
    let workspace = Workspace::new();
    workspace.put("a.js", "// héad\nf(f(1));  f(2) // tail\r\n");
    workspace.ok("ast_grep", replace("f($A)", "g($A)")).await;
    assert_eq!(workspace.get("a.js"), "// héad\ng(f(1));  g(2) // tail\r\n");
}

#[tokio::test]
async fn several_rewrites_change_several_files_at_once() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f(1); g(2);");
    workspace.put("sub/b.ts", "g(3);");
    let arguments = json!({
        "action": "replace", "rewrites": {"f($A)": "g($A)", "g($A)": "f($A)"}, "dry_run": false,
    });
    let result = workspace.ok("ast_grep", arguments).await;
    assert_eq!(result["files_touched"], 2);
    assert_eq!(workspace.get("a.js"), "g(1); f(2);");
    assert_eq!(workspace.get("sub/b.ts"), "f(3);");
}

#[tokio::test]
async fn a_rewrite_stops_at_its_limits() {
    let workspace = Workspace::new();
    for name in ["a.js", "b.js", "c.js"] {
        workspace.put(name, "f(1); f(2);");
    }
    let limited = with(replace("f($A)", "g($A)"), json!({"max_replacements": 3}));
    let result = workspace.ok("ast_grep", limited).await;
    assert_eq!(
        (&result["total_replacements"], &result["limit_reached"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(workspace.get("b.js"), "g(1); f(2);");
    assert_eq!(workspace.get("c.js"), "f(1); f(2);");

    let limited = with(replace("f($A)", "g($A)"), json!({"max_files": 1}));
    let result = workspace.ok("ast_grep", limited).await;
    assert_eq!(result["limit_reached"], true);
    assert_eq!(workspace.get("b.js"), "g(1); g(2);");
    let rest = with(replace("f($A)", "g($A)"), json!({"max_files": 1}));
    let result = workspace.ok("ast_grep", rest).await;
    assert_eq!(result["limit_reached"], false, "{result}");
}

#[tokio::test]
async fn one_call_makes_so_many_changes_and_no_more() {
    let workspace = Workspace::new();
    workspace.put("a.js", "f(1);\n".repeat(AST_REPLACEMENTS + 1));
    let result = workspace.ok("ast_grep", replace("f($A)", "g($A)")).await;
    assert_eq!(
        (&result["total_replacements"], &result["limit_reached"]),
        (&json!(AST_REPLACEMENTS), &json!(true))
    );
    let made = "g(1);\n".repeat(AST_REPLACEMENTS) + "f(1);\n";
    assert!(workspace.get("a.js") == made);
    let more = json!({"max_replacements": AST_REPLACEMENTS + 1});
    let code = ToolErrorCode::InvalidArguments;
    let beyond = with(replace("g($A)", "f($A)"), more);
    workspace.error("ast_grep", beyond, code).await;
}

#[tokio::test]
async fn nothing_outside_is_searched_or_changed() {
    let workspace = Workspace::new();
    std::fs::write(workspace.outside().join("a.js"), "f(1);").unwrap();
    let code = ToolErrorCode::PolicyDenied;
    for arguments in [find("f($A)"), replace("f($A)", "g($A)")] {
        let arguments = with(arguments, json!({"path": ".."}));
        workspace.error("ast_grep", arguments, code.clone()).await;
    }
    let actions = |arguments: Value| {
        let call = ToolCall {
            id: "call".into(),
            name: "ast_grep".into(),
            arguments,
        };
        workspace.tools.actions(&call).unwrap()
    };
    let (read, write) = (
        Action::Read { path: ".".into() },
        Action::Write { path: ".".into() },
    );
    let looks = [read.clone(), Action::Other { mutating: false }];
    assert_eq!(actions(find("f")), looks);
    assert_eq!(actions(replace("f", "g")), [read, write]);
    let shown = with(replace("f", "g"), json!({"dry_run": true}));
    assert_eq!(actions(shown), looks);
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    for uses in 1..6 {
        let workspace = Workspace::new().cancelling_at_door_use(uses);
        workspace.put("a.js", "f(1);");
        let arguments = replace("f($A)", "g($A)");
        let code = ToolErrorCode::Cancelled;
        workspace.error("ast_grep", arguments, code).await;
        assert_eq!(workspace.get("a.js"), "f(1);");
    }
}
