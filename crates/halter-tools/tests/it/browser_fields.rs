//! `type` of `browser`: which elements take text, and which say why not.

use crate::browser::{PATIENCE, browser, navigate, open, page, shows};
use crate::support::Workspace;
use serde_json::{Value, json};

/// What the fields of the page hold, by their ids.
const VALUES: &str = "Object.fromEntries(Array.from(document.querySelectorAll('[id]'), \
    (it) => [it.id, it.value ?? it.textContent]))";

async fn values(workspace: &Workspace) -> Value {
    let read = json!({"action": "eval", "expression": VALUES});
    browser(workspace, read).await["value"].clone()
}

#[tokio::test]
async fn what_takes_no_text_is_refused_and_nothing_else_gets_it() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/",
        "<input id=before value=kept autofocus><input id=off value=old disabled>\
         <fieldset disabled><textarea id=within>old</textarea></fieldset>\
         <input id=fixed value=old readonly><textarea id=still readonly>old</textarea>\
         <input id=box type=checkbox><input id=one type=radio><input id=file type=file>\
         <input id=go type=submit value=Go><input id=press type=button value=Press>\
         <input id=unseen value=old style='display: none'><p id=words>old</p>\
         <input id=away value=old onfocus=\"document.getElementById('before').focus()\">\
         <select id=list disabled><option>old<option>new</select><input id=count type=number>\
         <input id=day type=date value=2020-01-01><input id=slide type=range max=10 value=5>\
         <input id=paint type=color value=#112233>",
    );
    navigate(&workspace, &server, "/").await;
    let before = values(&workspace).await;
    browser(
        &workspace,
        json!({"action": "eval", "expression": "document.getElementById('before').focus()"}),
    )
    .await;
    for (id, why) in [
        ("off", "is disabled"),
        ("within", "is disabled"),
        ("list", "is disabled"),
        ("fixed", "is read-only; `click`"),
        ("still", "is read-only"),
        ("box", "is a checkbox, which takes no text; `click` it"),
        ("one", "is a radio"),
        ("go", "is a submit"),
        ("press", "is a button"),
        ("file", "takes files"),
        ("unseen", "does not take the focus"),
        ("away", "does not take the focus"),
        ("words", "takes no text; `snapshot`"),
        ("count", "takes a number such as"),
        ("day", "takes a date such as 2031-12-24"),
        ("slide", "takes a number from 0 to 10 in steps of 1"),
        ("paint", "takes a color such as #ff8800"),
    ] {
        let typed = json!({"action": "type", "selector": format!("#{id}"), "text": "new",
            "timeout_secs": PATIENCE});
        let told = workspace.failure("browser", typed).await;
        assert!(told.contains("nothing was typed: it "), "{id}: {told}");
        assert!(told.contains(why), "{id}: {told}");
        assert_eq!(values(&workspace).await, before, "{id}");
    }
    workspace.store.close().await;
}

#[tokio::test]
async fn fields_that_nobody_types_into_get_their_value_and_say_so() {
    let Some((workspace, server)) = open().await else {
        return;
    };
    page(
        &server,
        "/",
        "<form action=/sent><input id=text><textarea id=area>old</textarea>\
         <input id=count type=number value=1><div id=rich contenteditable>old <b>bold</b></div>\
         <input id=time type=time><input id=both type=datetime-local><input id=month type=month>\
         <input id=week type=week><input id=slide type=range min=-1 max=1 step=0.5>\
         <input id=paint type=color><input id=day type=date name=day><button>Book</button></form>\
         <script>window.told = []; for (const kind of ['input', 'change']) \
         addEventListener(kind, (it) => told.push(it.type + ' ' + it.target.id))</script>",
    );
    page(&server, "/sent?day=2024-02-29", "<p>Booked");
    navigate(&workspace, &server, "/").await;
    let fields = [
        ("text", "a b"),
        ("area", "two\nlines"),
        ("count", "-12"),
        ("rich", "new"),
        ("time", "23:59"),
        ("both", "2024-02-29T23:59"),
        ("month", "2024-02"),
        ("week", "2024-W09"),
        ("slide", "-0.5"),
        ("paint", "#FF8800"),
    ];
    for (id, text) in fields {
        let typed = json!({"action": "type", "selector": format!("#{id}"), "text": text});
        browser(&workspace, typed).await;
    }
    let now = values(&workspace).await;
    for (id, text) in fields {
        let text = if id == "paint" { "#ff8800" } else { text };
        assert_eq!(now[id], text, "{now}");
    }
    let told = json!({"action": "eval", "expression": "told"});
    let told = browser(&workspace, told).await["value"].to_string();
    for line in ["input week", "change week", "input paint", "change slide"] {
        assert!(told.contains(line), "{told}");
    }
    let sent = json!({"action": "type", "selector": "#day", "text": "2024-02-29", "submit": true});
    browser(&workspace, sent).await;
    shows(&workspace, "Booked").await;
    workspace.store.close().await;
}
