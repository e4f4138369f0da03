//! A flame graph: what was seen, as a picture that any browser shows.

use crate::exec::StackSamples;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The picture's width and a function's height, in pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;

/// Room above the functions for the title.
const TOP: f64 = 36.0;

/// Narrower functions are left out.
const NARROWEST: f64 = 0.5;

/// The width of a letter, about.
const LETTER: f64 = 6.8;

/// A function, and what it called.
#[derive(Default)]
struct Called<'a> {
    seen: u64,
    inner: BTreeMap<&'a str, Called<'a>>,
}

/// The picture, without scripts: a function's share appears when it is pointed
/// at.
pub(super) fn svg(samples: &StackSamples, title: &str) -> String {
    let mut all = Called::default();
    for (stack, seen) in samples.stacks() {
        all.seen += seen;
        let mut place = &mut all;
        for name in stack {
            place = place.inner.entry(name).or_default();
            place.seen += seen;
        }
    }
    let mut body = String::new();
    let mut drawing = Drawing {
        total: all.seen,
        rows: 0,
        body: &mut body,
    };
    drawing.row(&all, 0.0, 0);
    let rows = drawing.rows;
    let height = TOP + ROW * f64::from(rows) + ROW;
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfbf7\"/>\n\
         <text x=\"6\" y=\"22\" font-size=\"14\">{title}</text>\n{body}</svg>\n"
    )
}

struct Drawing<'a> {
    total: u64,
    rows: u32,
    body: &'a mut String,
}

impl Drawing<'_> {
    /// Draws what a function called, outermost at the top.
    fn row(&mut self, place: &Called<'_>, mut left: f64, row: u32) {
        for (name, called) in &place.inner {
            #[expect(clippy::cast_precision_loss, reason = "a share, for a picture")]
            let share = called.seen as f64 / self.total.max(1) as f64;
            let width = share * WIDTH;
            if width >= NARROWEST {
                self.rows = self.rows.max(row + 1);
                self.function(name, called.seen, share, left, row);
                self.row(called, left, row + 1);
            }
            left += width;
        }
    }

    fn function(&mut self, name: &str, seen: u64, share: f64, left: f64, row: u32) {
        let top = TOP + ROW * f64::from(row);
        let width = share * WIDTH;
        let (red, green, blue) = colour(name);
        let text = escaped(name);
        let percent = share * 100.0;
        let room = ((width - 4.0) / LETTER).max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 200"
        )]
        let shown: String = name.chars().take(room as usize).collect();
        let shown = match shown.chars().count() {
            0..=2 => String::new(),
            _ => escaped(&shown),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            self.body,
            "<g><title>{text}: {percent:.2} %, {seen} samples</title>\
             <rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{height}\" \
             fill=\"rgb({red},{green},{blue})\" stroke=\"#fdfbf7\" stroke-width=\"0.5\"/>\
             <text x=\"{x:.2}\" y=\"{y}\">{shown}</text></g>",
            height = ROW - 1.0,
            x = left + 2.0,
            y = top + 12.0,
        );
    }
}

/// A warm colour that stays with the name.
fn colour(name: &str) -> (u8, u8, u8) {
    let hash = name.bytes().fold(5381_u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    });
    let [first, second, third, _] = hash.to_le_bytes();
    (205 + first % 50, 90 + second % 130, 40 + third % 50)
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(stacks: &[(&str, usize)]) -> StackSamples {
        let mut samples = StackSamples::new("perf");
        for (stack, seen) in stacks {
            for _ in 0..*seen {
                samples.add(stack.rsplit(';').map(str::to_owned).collect());
            }
        }
        samples
    }

    #[test]
    fn the_width_of_a_function_is_its_share() {
        let picture = svg(&samples(&[("main;a", 3), ("main;b<int>", 1)]), "x & y");
        assert!(picture.contains("main: 100.00 %, 4 samples"), "{picture}");
        assert!(picture.contains("a: 75.00 %, 3 samples"));
        assert!(picture.contains("width=\"900.00\""));
        assert!(picture.contains("b&lt;int&gt;: 25.00 %, 1 samples"));
        assert!(picture.contains("x &amp; y"));
        assert!(!picture.contains("<int>"));
    }

    #[test]
    fn nothing_seen_is_a_picture_without_functions() {
        let picture = svg(&samples(&[]), "t");
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(!picture.contains("<g>"));
    }

    #[test]
    fn what_is_too_narrow_to_be_seen_is_left_out() {
        let picture = svg(&samples(&[("main;wide", 3000), ("main;narrow", 1)]), "t");
        assert!(picture.contains("wide") && !picture.contains("narrow"));
    }
}
