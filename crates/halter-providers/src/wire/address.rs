//! Addresses of services, as people write them: with or without the version
//! of the API, with or without a slash at the end.

/// The base address with a version at its end.
pub(super) fn versioned(base_url: &str, version: &str) -> String {
    let base = base_url.trim_end_matches('/');
    let last = base.rsplit('/').next().unwrap_or("");
    let has_version = last
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if has_version {
        base.to_owned()
    } else {
        format!("{base}/{version}")
    }
}

/// True if an address is one of a host, reached safely.
pub(crate) fn is_at(base_url: &str, host: &str) -> bool {
    let rest = base_url.strip_prefix("https://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.strip_suffix(":443").unwrap_or(authority);
    authority.eq_ignore_ascii_case(host)
}

/// A name as a segment of a path; slashes stay.
pub(super) fn path_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b'@' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_added_only_where_it_is_missing() {
        for (base, expected) in [
            ("https://api.openai.com", "https://api.openai.com/v1"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
            ("https://host/openai/v1beta1", "https://host/openai/v1beta1"),
            ("http://[::1]:80/vast", "http://[::1]:80/vast/v1"),
        ] {
            assert_eq!(versioned(base, "v1"), expected);
        }
    }

    #[test]
    fn only_the_vendors_own_address_is_the_vendors() {
        let is = |base| is_at(base, "api.openai.com");
        assert!(is("https://api.openai.com") && is("https://API.openai.com:443/v1/"));
        for other in [
            "http://api.openai.com",
            "https://api.openai.com.example.org/v1",
            "https://example.org/api.openai.com",
            "https://api.openai.com@example.org",
            "https://api.openai.com:8443",
            "https://eu.api.openai.com",
            "",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place_in_the_path() {
        assert_eq!(path_segment("gemini-3-pro"), "gemini-3-pro");
        assert_eq!(path_segment("a?b#c d"), "a%3Fb%23c%20d");
    }
}
