//! Whether a MIME message is whole. What is inside its parts is the operator's.

/// Checks what would make cloud-init see no parts, or fewer than there are.
pub(super) fn check(document: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(document).map_err(|error| format!("{error}; encode such parts in base64"))?;
    let text = text.replace("\r\n", "\n");
    let (headers, body) = text.split_once("\n\n").ok_or("no blank line ends its headers")?;
    let headers = headers.replace("\n ", " ").replace("\n\t", " ");
    let content_type = headers
        .lines()
        .find_map(|line| {
            line.split_once(':')
                .filter(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        })
        .map(|(_, value)| value.trim())
        .ok_or("it has no Content-Type")?;
    if !content_type.to_ascii_lowercase().starts_with("multipart/") {
        return Ok(());
    }
    let boundary = content_type
        .split(';')
        .find_map(|parameter| {
            parameter
                .split_once('=')
                .filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))
        })
        .map(|(_, value)| value.trim().trim_matches('"'))
        .filter(|boundary| !boundary.is_empty())
        .ok_or("its Content-Type has no boundary")?;
    let opens = format!("--{boundary}");
    let closes = format!("--{boundary}--");
    if !body.lines().any(|line| line.trim_end() == opens) {
        return Err(format!("no part begins with `{opens}`"));
    }
    if !body.lines().any(|line| line.trim_end() == closes) {
        return Err(format!("`{closes}` is missing at its end"));
    }
    Ok(())
}
