//! The page: one file without anything from elsewhere, allowed to run nothing but its own script.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::digest::{SHA256, digest};

/// The page.
pub(crate) const PAGE: &str = include_str!("page.html");

/// What a browser lets it do: its own style and script, known by their hashes, and questions to where it came from.
pub(crate) static CONTENT_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash("style"),
        hash("script")
    )
});

/// The hash of the one element of this name.
fn hash(element: &str) -> String {
    let inner = PAGE
        .split_once(&format!("<{element}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{element}>")))
        .map_or("", |(inner, _)| inner);
    format!("sha256-{}", BASE64.encode(digest(&SHA256, inner.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_style_one_script_and_nothing_from_elsewhere() {
        for element in ["style", "script"] {
            assert_eq!(PAGE.matches(&format!("<{element}")).count(), 1, "{element}");
            assert_ne!(hash(element), format!("sha256-{}", BASE64.encode(digest(&SHA256, b""))));
        }
        for foreign in [
            "http:",
            "https:",
            "src=",
            "@import",
            "url(",
            " style=",
            " onclick=",
            "innerHTML",
        ] {
            let found = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(foreign), "{foreign}");
        }
    }
}
