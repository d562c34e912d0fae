//! The standard input and output of a command: any (`ext`), or `ssh` as the machine has it set up.

use std::{
    io,
    pin::Pin,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use crate::{Error, Kind};

/// A running command; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    input: ChildStdin,
    output: ChildStdout,
    _child: Child,
}

/// What the command complained about.
#[derive(Debug)]
pub(crate) struct Complaints {
    command: String,
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

/// As much as is kept of what it complains about.
const COMPLAINTS: usize = 4096;
/// How long a command that has closed its output may take to say why.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// Starts a command.
pub(crate) fn start(mut command: Command) -> Result<(Process, Complaints), Error> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let failed = |error| Error::connect(format!("command `{name}`"), error);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let (Some(input), Some(output), Some(mut errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let text = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&text);
    let reader = tokio::spawn(async move {
        let mut part = [0; 512];
        // Read to the end even when enough is kept: a full pipe would stop the command.
        while let Ok(got @ 1..) = errors.read(&mut part).await {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = COMPLAINTS.saturating_sub(kept.len()).min(got);
            kept.extend_from_slice(part.get(..room).unwrap_or_default());
        }
    });
    Ok((
        Process {
            input,
            output,
            _child: child,
        },
        Complaints {
            command: name,
            text,
            reader,
        },
    ))
}

impl Complaints {
    /// The error of an opening that failed, with what the command said about it.
    pub(crate) async fn explain(self, error: Error) -> Error {
        if error.kind() != Kind::Disconnected {
            return error;
        }
        // Either it ends, and all it said is there, or it does not, and what it said so far has to do.
        drop(tokio::time::timeout(LAST_WORDS, self.reader).await);
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        if text.is_empty() {
            return error;
        }
        Error::connect(
            format!("command `{}`, which says: {text}", self.command),
            io::Error::other(error),
        )
    }
}

impl AsyncRead for Process {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().output).poll_read(cx, out)
    }
}

impl AsyncWrite for Process {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().input).poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().input).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().input).poll_shutdown(cx)
    }
}
