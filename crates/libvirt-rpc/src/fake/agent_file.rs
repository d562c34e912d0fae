//! The guest agent's commands about files.

use serde_json::{Value, json};

use super::{agent::Open, files::Files};
use crate::base64;

/// Permissions of a file the agent makes.
const MODE: u32 = 0o666;
/// What it reads when it is not told how much.
const COUNT: u64 = 4096;
/// The most it reads at a time.
const COUNT_MAX: u64 = 48 << 20;

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    path: String,
    at: usize,
    reads: bool,
    writes: bool,
    appends: bool,
    at_end: bool,
}

pub(super) fn carry_out(state: &mut Open, files: &mut Files, what: &str, args: &Value) -> Result<Value, String> {
    match what {
        "open" => open(state, files, args),
        "read" => read(handle(state, args)?, files, args),
        "write" => write(handle(state, args)?, files, args),
        "seek" => seek(handle(state, args)?, files, args),
        "flush" => handle(state, args).map(|_| json!({})),
        "close" => {
            handle(state, args)?;
            state.handles.remove(&args["handle"].as_i64().unwrap_or_default());
            Ok(json!({}))
        }
        other => Err(format!("The command guest-file-{other} has not been found")),
    }
}

fn handle<'a>(state: &'a mut Open, args: &Value) -> Result<&'a mut Handle, String> {
    let number = args["handle"].as_i64().unwrap_or_default();
    let found = state.handles.get_mut(&number);
    found.ok_or_else(|| format!("handle '{number}' has not been found"))
}

fn open(state: &mut Open, files: &mut Files, args: &Value) -> Result<Value, String> {
    let path = args["path"].as_str().ok_or("Parameter 'path' is missing")?;
    let mode = args["mode"].as_str().unwrap_or("r");
    let failed = |why: &str| format!("failed to open file '{path}' (mode: '{mode}'): {why}");
    let plain: String = mode.chars().filter(|c| *c != 'b').collect();
    let (reads, writes) = match plain.as_str() {
        "r" => (true, false),
        "w" | "a" => (false, true),
        "r+" | "w+" | "a+" => (true, true),
        _ => return Err(format!("invalid file open mode '{mode}'")),
    };
    if path.ends_with('/') || files.below(&format!("{path}/")).next().is_some() {
        return Err(failed("Is a directory"));
    }
    if plain.starts_with('r') {
        files.read(path).ok_or_else(|| failed("No such file or directory"))?;
    } else {
        if plain.starts_with('w') || files.read(path).is_none() {
            files.put(path.to_owned(), MODE, Vec::new());
        }
    }
    state.counter += 1;
    let handle = Handle {
        path: path.to_owned(),
        at: 0,
        reads,
        writes,
        appends: plain.starts_with('a'),
        at_end: false,
    };
    state.handles.insert(state.counter, handle);
    Ok(json!(state.counter))
}

fn read(handle: &mut Handle, files: &Files, args: &Value) -> Result<Value, String> {
    let count = args["count"].as_u64().unwrap_or(COUNT);
    if count > COUNT_MAX {
        return Err(format!("value '{count}' is invalid for argument count"));
    }
    if !handle.reads {
        return Err("failed to read file: Bad file descriptor".to_owned());
    }
    let content = files.read(&handle.path).unwrap_or_default();
    let rest = content.get(handle.at..).unwrap_or_default();
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    let part = rest.get(..wanted.min(rest.len())).unwrap_or_default();
    handle.at += part.len();
    // Like a C stream: the end is known when it was run into, not when it was reached.
    handle.at_end = part.len() < wanted;
    Ok(json!({ "count": part.len(), "buf-b64": base64::encode(part), "eof": handle.at_end }))
}

fn write(handle: &mut Handle, files: &mut Files, args: &Value) -> Result<Value, String> {
    let text = args["buf-b64"].as_str().ok_or("Parameter 'buf-b64' is missing")?;
    let data = base64::decode(text).ok_or("Base64 data is invalid")?;
    let count = match args["count"].as_u64().map(usize::try_from) {
        None => data.len(),
        Some(Ok(count)) if count <= data.len() => count,
        Some(_) => return Err("value is invalid for argument count".to_owned()),
    };
    if !handle.writes {
        return Err("failed to write to file: Bad file descriptor".to_owned());
    }
    let end = files.read(&handle.path).map_or(0, <[u8]>::len);
    let at = if handle.appends { end } else { handle.at };
    if !files.write_at(&handle.path, at, data.get(..count).unwrap_or_default()) {
        return Err("failed to write to file: Stale file handle".to_owned());
    }
    handle.at = at + count;
    Ok(json!({ "count": count, "eof": false }))
}

fn seek(handle: &mut Handle, files: &Files, args: &Value) -> Result<Value, String> {
    let end = files.read(&handle.path).map_or(0, <[u8]>::len);
    let base = match (args["whence"].as_str(), args["whence"].as_u64()) {
        (Some("set"), _) | (_, Some(0)) => 0,
        (Some("cur"), _) | (_, Some(1)) => handle.at,
        (Some("end"), _) | (_, Some(2)) => end,
        _ => return Err("invalid whence code".to_owned()),
    };
    let offset = args["offset"].as_i64().ok_or("Parameter 'offset' is missing")?;
    let at = i64::try_from(base).unwrap_or(i64::MAX).saturating_add(offset);
    handle.at = usize::try_from(at).map_err(|_| "failed to seek file: Invalid argument".to_owned())?;
    handle.at_end = false;
    Ok(json!({ "position": handle.at, "eof": false }))
}
