//! Elements of a page: finding them, pointing at them, filling them in.

use super::running::Running;
use super::{BrowserInput, keys};
use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

/// Chooses an option, which no pointer reaches; anything else is pointed at.
const CHOOSE: &str = "function() {
    if (this.tagName !== 'OPTION') return false;
    this.selected = true;
    const list = this.closest('select');
    for (const kind of ['input', 'change']) {
        list?.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    return true;
}";

/// Makes an element ready for text that replaces its own (`type`), or gives it a
/// value that nobody types (`done`). Any other answer says why neither is so.
const FILL: &str = "function(text, submit) {
    const kind = this.localName === 'input' ? this.type : this.localName;
    const has_focus = () => this.getRootNode().activeElement === this;
    const unfocused = 'it does not take the focus: it may be hidden or covered; `snapshot` shows \
        what is there, and `click` may bring it up';
    const tell = () => {
        for (const event of ['input', 'change']) {
            this.dispatchEvent(new Event(event, { bubbles: true }));
        }
    };
    const takes = (value) => {
        const probe = document.createElement('input');
        probe.type = kind;
        for (const name of kind === 'range' ? ['min', 'max', 'step'] : []) {
            if (this.hasAttribute(name)) probe.setAttribute(name, this.getAttribute(name));
        }
        probe.value = value;
        if (kind === 'range') return value.trim() !== '' && Number(probe.value) === Number(value);
        if (kind === 'color') return probe.value === value.toLowerCase();
        return value === '' || probe.value !== '';
    };
    const range = () => `a number from ${this.min || 0} to ${this.max || 100}` +
        (this.step === 'any' ? '' : ` in steps of ${this.step || 1}`);
    const set_whole = {
        date: 'a date such as 2031-12-24',
        time: 'a time such as 13:45',
        'datetime-local': 'a date and time such as 2031-12-24T13:45',
        month: 'a month such as 2031-12',
        week: 'a week such as 2031-W52',
        color: 'a color such as #ff8800',
        range: kind === 'range' ? range() : '',
    };
    if (this.nodeType !== 1) return 'it takes no text; `snapshot` shows what does';
    if (this.matches(':disabled')) return 'it is disabled; do first what the page wants before it';
    if (['checkbox', 'radio', 'button', 'submit', 'reset', 'image'].includes(kind)) {
        return 'it is a ' + kind + ', which takes no text; `click` it';
    }
    if (kind === 'file') {
        return 'it takes files, which this browser does not send; use a program such as curl';
    }
    if (this.readOnly) {
        return 'it is read-only; `click` it, or what is beside it, if the page fills it in that way';
    }
    if (kind === 'select') {
        const fits = (it) => it.value === text || it.label.trim() === text.trim();
        const found = Array.from(this.options).find(fits);
        if (!found) return 'it has no such option; `snapshot` shows those it has';
        this.focus();
        if (submit && !has_focus()) return unfocused;
        found.selected = true;
        tell();
        return 'done';
    }
    if (kind in set_whole) {
        if (!takes(text)) return `it takes ${set_whole[kind]}`;
        this.focus();
        if (submit && !has_focus()) return unfocused;
        // Past the setter of a page that watches its own changes.
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(this, text);
        tell();
        // A new value may take the focus from the part that had it.
        if (submit) this.focus();
        return 'done';
    }
    if (['input', 'textarea'].includes(this.localName)) {
        if (kind === 'number' && !takes(text)) return 'it takes a number such as 12';
        this.focus();
        if (!has_focus()) return unfocused;
        this.select();
        return 'type';
    }
    if (this.isContentEditable) {
        let whole = this;
        while (whole.parentElement?.isContentEditable) whole = whole.parentElement;
        whole.focus();
        if (whole.getRootNode().activeElement !== whole) return unfocused;
        getSelection().selectAllChildren(this);
        return 'type';
    }
    return 'it takes no text; `snapshot` shows what does';
}";

/// The element that a call names.
async fn find(running: &Running, input: &BrowserInput) -> anyhow::Result<String> {
    let object = match (&input.reference, &input.selector) {
        (Some(name), _) => {
            let old = || format!("'{name}' is not on the page; take a new `snapshot`");
            let element = running.refs.get(name).with_context(old)?;
            let params = json!({ "backendNodeId": element });
            let found = running.page("DOM.resolveNode", params).await;
            found
                .with_context(old)?
                .pointer("/object/objectId")
                .cloned()
        }
        (None, Some(selector)) => {
            let expression = format!("document.querySelector({})", json!(selector));
            let params = json!({ "expression": expression });
            let found = running.page("Runtime.evaluate", params).await?;
            if found.get("exceptionDetails").is_some() {
                bail!("'{selector}' is not a CSS selector");
            }
            found.pointer("/result/objectId").cloned()
        }
        (None, None) => bail!("name the element with `ref` or `selector`"),
    };
    let object = object.as_ref().and_then(Value::as_str);
    object
        .map(str::to_owned)
        .ok_or_else(|| anyhow!("no element fits; look at the page with `snapshot`"))
}

async fn on_element(
    running: &Running,
    element: &str,
    function: &str,
    arguments: Value,
) -> anyhow::Result<Value> {
    let params = json!({
        "objectId": element,
        "functionDeclaration": function,
        "arguments": arguments,
        "returnByValue": true,
        "userGesture": true,
    });
    let answer = running.page("Runtime.callFunctionOn", params).await?;
    let value = answer.pointer("/result/value").cloned();
    Ok(value.unwrap_or_default())
}

pub(super) async fn click(running: &Running, input: &BrowserInput) -> anyhow::Result<()> {
    let element = find(running, input).await?;
    if on_element(running, &element, CHOOSE, json!([])).await? == json!(true) {
        return Ok(());
    }
    let named = json!({ "objectId": element });
    // What cannot be scrolled to may still be pointed at.
    let _ = running
        .page("DOM.scrollIntoViewIfNeeded", named.clone())
        .await;
    let Some((x, y)) = center(running, named).await else {
        let function = "function() { this.click(); }";
        on_element(running, &element, function, json!([])).await?;
        return Ok(());
    };
    for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
        running.input("Input.dispatchMouseEvent", event).await?;
    }
    Ok(())
}

/// The middle of what is seen of an element.
async fn center(running: &Running, element: Value) -> Option<(f64, f64)> {
    let answer = running.page("DOM.getContentQuads", element).await.ok()?;
    let quad = answer.pointer("/quads/0")?.as_array()?;
    let numbers: Vec<f64> = quad.iter().filter_map(Value::as_f64).collect();
    let middle = |first: usize| {
        let sum: f64 = numbers.iter().skip(first).step_by(2).sum();
        sum / 4.0
    };
    (numbers.len() == 8).then(|| (middle(0), middle(1)))
}

pub(super) async fn fill(running: &Running, input: &BrowserInput) -> anyhow::Result<()> {
    let text = input.text.as_deref().unwrap_or_default();
    let element = find(running, input).await?;
    let arguments = json!([{ "value": text }, { "value": input.submit }]);
    let ready = on_element(running, &element, FILL, arguments).await?;
    match ready.as_str() {
        Some("done") => {}
        Some("type") if text.is_empty() => press(running, "Delete").await?,
        Some("type") => {
            let params = json!({ "text": text });
            running.page("Input.insertText", params).await?;
        }
        Some(why) => bail!("nothing was typed: {why}"),
        None => bail!("nothing was typed: the element is gone; take a new `snapshot`"),
    }
    if input.submit {
        press(running, "Enter").await?;
    }
    Ok(())
}

pub(super) async fn press(running: &Running, key: &str) -> anyhow::Result<()> {
    for event in keys::events(key)? {
        running.input("Input.dispatchKeyEvent", event).await?;
    }
    Ok(())
}

pub(super) async fn scroll_to(running: &Running, input: &BrowserInput) -> anyhow::Result<()> {
    let element = find(running, input).await?;
    let function = "function() { this.scrollIntoView({ block: 'center', behavior: 'instant' }); }";
    on_element(running, &element, function, json!([])).await?;
    Ok(())
}
