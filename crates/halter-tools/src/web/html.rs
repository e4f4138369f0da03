//! HTML as Markdown.
//!
//! A page is parsed piece by piece and looked at between the pieces: one that
//! is nested too deeply or has too many elements, which some take on purpose,
//! is cut there and comes as plain text. What is converted is therefore small
//! enough for a converter that calls itself for every level.

use super::ReadingDeadline;
use crate::limits::{WEB_PAGE_DEPTH, WEB_PAGE_NODES};
use htmd::HtmlToMarkdown;
use htmd::options::{Options, TranslationMode};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use url::Url;

/// Bytes of a page that are parsed before it is looked at: few enough that one
/// piece cannot make more than a few million elements of what came before.
const PIECE_BYTES: usize = 8 * 1024;

/// Elements that hold nothing to read.
const SKIPPED: [&str; 8] = [
    "script", "style", "template", "noscript", "svg", "iframe", "object", "title",
];

/// A page that was read.
pub(crate) struct Page {
    pub(crate) title: Option<String>,
    pub(crate) content: String,
    pub(crate) note: Option<String>,
}

/// Reads a page. Addresses in it become whole ones.
pub(crate) fn to_markdown(html: &str, base: &Url, stop: &ReadingDeadline) -> anyhow::Result<Page> {
    let (document, fits) = parsed(html, stop)?;
    let title = title(&document);
    complete_addresses(&document, base);
    stop.check()?;
    let (content, note) = match fits {
        true => (converter().tree_to_markdown(&document), None),
        false => {
            let note = "the page is nested too deeply or has too many elements: this is the text \
                        of its first part";
            (plain_text(&document), Some(note.to_owned()))
        }
    };
    Ok(Page {
        title,
        content,
        note,
    })
}

fn converter() -> HtmlToMarkdown {
    HtmlToMarkdown::builder()
        .options(Options {
            translation_mode: TranslationMode::Pure,
            ..Options::default()
        })
        .skip_tags(SKIPPED.to_vec())
        .build()
}

/// The tree of a page, and whether all of the page is in it.
fn parsed(html: &str, stop: &ReadingDeadline) -> anyhow::Result<(Handle, bool)> {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        stop.check()?;
        let end = rest.floor_char_boundary(PIECE_BYTES.min(rest.len()));
        let (piece, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        parser.process(StrTendril::from_slice(piece));
        rest = after;
        if !is_small(&parser.tokenizer.sink.sink.document) {
            return Ok((parser.finish().document, false));
        }
    }
    let document = parser.finish().document;
    let fits = is_small(&document);
    Ok((document, fits))
}

/// Whether a tree has no more levels and nodes than the limits say.
fn is_small(document: &Handle) -> bool {
    let mut nodes = 0;
    let mut small = true;
    walk(document, |_, depth| {
        nodes += 1;
        small = nodes <= WEB_PAGE_NODES && depth <= WEB_PAGE_DEPTH;
        match small {
            true => Walk::Into,
            false => Walk::End,
        }
    });
    small
}

/// Where a walk goes on.
enum Walk {
    Into,
    Past,
    End,
}

/// Visits nodes in their order, without calling itself: a page may be deep.
fn walk(document: &Handle, mut visit: impl FnMut(&Handle, usize) -> Walk) {
    let mut waiting = vec![(document.clone(), 0)];
    while let Some((node, depth)) = waiting.pop() {
        match visit(&node, depth) {
            Walk::Into => {}
            Walk::Past => continue,
            Walk::End => return,
        }
        if let NodeData::Element {
            template_contents, ..
        } = &node.data
            && let Some(inside) = &*template_contents.borrow()
        {
            waiting.push((inside.clone(), depth + 1));
        }
        let children = node.children.borrow();
        let children = children.iter().rev();
        waiting.extend(children.map(|child| (child.clone(), depth + 1)));
    }
}

fn element_name(node: &Handle) -> &str {
    match &node.data {
        NodeData::Element { name, .. } => &name.local,
        _ => "",
    }
}

fn title(document: &Handle) -> Option<String> {
    let mut title = None;
    walk(document, |node, _| match element_name(node) {
        "title" => {
            let text = plain_text_of(node);
            title = Some(text.split_whitespace().collect::<Vec<_>>().join(" "));
            Walk::End
        }
        "body" | "svg" => Walk::Past,
        _ => Walk::Into,
    });
    title.filter(|title| !title.is_empty())
}

/// Makes addresses whole, and takes out those that hold what they point to:
/// they would fill the result.
fn complete_addresses(document: &Handle, base: &Url) {
    walk(document, |node, _| {
        if let NodeData::Element { attrs, .. } = &node.data {
            for attribute in attrs.borrow_mut().iter_mut() {
                if !matches!(&*attribute.name.local, "href" | "src") {
                    continue;
                }
                if let Ok(address) = base.join(&attribute.value) {
                    attribute.value = match address.scheme() {
                        "data" => StrTendril::new(),
                        _ => StrTendril::from_slice(address.as_str()),
                    };
                }
            }
        }
        Walk::Into
    });
}

/// The text of a few words of HTML.
pub(crate) fn text_of(html: &str) -> String {
    let document = parse_document(RcDom::default(), ParseOpts::default())
        .one(html)
        .document;
    plain_text_of(&document)
}

fn plain_text(document: &Handle) -> String {
    let text = plain_text_of(document);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn plain_text_of(node: &Handle) -> String {
    let mut text = String::new();
    let mut is_root = true;
    walk(node, |node, _| {
        if let NodeData::Text { contents } = &node.data {
            text.push_str(&contents.borrow());
        }
        match SKIPPED.contains(&element_name(node)) && !std::mem::take(&mut is_root) {
            true => Walk::Past,
            false => Walk::Into,
        }
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use tokio_util::sync::CancellationToken;

    fn page(html: &str) -> Page {
        let base = Url::parse("https://a.example/docs/index.html").unwrap();
        let stop = ReadingDeadline {
            cancel: CancellationToken::new(),
            at: Instant::now() + Duration::from_secs(600),
        };
        to_markdown(html, &base, &stop).unwrap()
    }

    #[test]
    fn a_page_becomes_markdown_with_whole_addresses() {
        let page = page(
            "<!doctype html><title> The\n page </title><style>p{}</style><h1>Hi</h1>\
             <p>Read <a href='../more?x=1#y'>more</a>, <b>please</b>.<script>x()</script></p>\
             <img alt=dot src='data:image/png;base64,AAAA'><ul><li>one<li>two</ul>\
             <table><tr><th>a<th>b<tr><td>1<td>2</table><pre><code>let x = 1;\n</code></pre>",
        );
        assert_eq!(page.title.as_deref(), Some("The page"));
        assert_eq!(page.note, None);
        for part in [
            "# Hi",
            "Read [more](https://a.example/more?x=1#y), **please**.",
            "one",
            "| 1 | 2 |",
            "let x = 1;",
        ] {
            assert!(page.content.contains(part), "{part}: {}", page.content);
        }
        for part in ["x()", "p{}", "base64", "The"] {
            assert!(!page.content.contains(part), "{part}: {}", page.content);
        }
    }

    #[test]
    fn a_page_made_to_be_too_much_comes_as_text() {
        for piece in ["<div>", "<b><i>", "<template>", "<svg>", "<table><td>"] {
            let page = page(&format!("<p>first</p>{}<p>last", piece.repeat(200_000)));
            assert!(page.note.is_some(), "{piece}");
            assert!(page.content.starts_with("first"), "{piece}");
        }
        // Each element that is left open is opened again in every paragraph.
        let open: String = (0..4_000).map(|it| format!("<b x={it}>")).collect();
        let page = page(&format!("first{open}{}", "<p>x".repeat(100_000)));
        assert!(page.note.is_some());
        assert!(page.content.starts_with("first"));
    }

    #[test]
    fn the_deepest_and_the_largest_page_that_fits_is_converted() {
        // html, body and the text around them are levels too.
        let deep = |levels: usize| format!("{}x", "<div>".repeat(levels));
        assert_eq!(page(&deep(WEB_PAGE_DEPTH - 3)).note, None);
        assert!(page(&deep(WEB_PAGE_DEPTH - 2)).note.is_some());
        let wide = |nodes: usize| "<hr>".repeat(nodes);
        assert_eq!(page(&wide(WEB_PAGE_NODES - 4)).note, None);
        assert!(page(&wide(WEB_PAGE_NODES - 3)).note.is_some());
    }
}
