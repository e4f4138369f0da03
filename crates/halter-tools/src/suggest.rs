//! Finding the name somebody meant.

use crate::limits::SHOWN_VALUE_CHARS;

/// The candidate nearest to `name`, if one is near enough to be a misspelling.
pub(crate) fn nearest<T>(
    name: &str,
    candidates: impl IntoIterator<Item = T>,
    text: impl Fn(&T) -> &str,
) -> Option<T> {
    let name = name.to_lowercase();
    let allowed = (name.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| {
            let other = text(&candidate).to_lowercase();
            (strsim::damerau_levenshtein(&name, &other), candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The text, cut to what a message should repeat of it.
pub(crate) fn shortened(text: &str) -> String {
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(SHOWN_VALUE_CHARS).collect();
    match chars.next() {
        Some(_) => format!("{shown}…"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
        nearest(name, candidates.iter().copied(), |text| text)
    }

    #[test]
    fn a_misspelt_name_finds_the_nearest_and_another_finds_none() {
        let names = ["read", "grep", "write", "edit"];
        assert_eq!(near("raed", &names), Some("read"));
        assert_eq!(near("Write", &names), Some("write"));
        assert_eq!(near("browser", &names), None);
        assert_eq!(near("", &names), None);
    }

    #[test]
    fn long_text_is_cut_at_the_limit() {
        let fits = "é".repeat(SHOWN_VALUE_CHARS);
        assert_eq!(shortened(&fits), fits);
        assert_eq!(shortened(&format!("{fits}x")), format!("{fits}…"));
    }
}
