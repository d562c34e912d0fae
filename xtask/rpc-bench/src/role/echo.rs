//! The pipe itself: so many bytes there, so many back, nothing in between.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::sample::{Clock, Sample};

/// Bytes of a `GET_LIB_VERSION` call, and of its reply.
const CALL: usize = 28;
const REPLY: usize = 36;

const BUFFER: usize = 64 << 10;

/// Answers one client after the other until it is killed.
pub(super) fn serve(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("listening on {}", socket.display()))?;
    let (mut input, replies) = (vec![0; BUFFER], vec![7; BUFFER / CALL * REPLY + REPLY]);
    loop {
        let (mut client, _) = listener.accept()?;
        let mut have = 0;
        loop {
            let got = client.read(&mut input)?;
            if got == 0 {
                break;
            }
            have += got;
            let bytes = replies.get(..have / CALL * REPLY).context("too many calls at once")?;
            client.write_all(bytes)?;
            have %= CALL;
        }
    }
}

/// Keeps `depth` calls on their way.
pub(super) fn measure(socket: &Path, depth: usize, milliseconds: u64) -> Result<Sample> {
    let mut server = UnixStream::connect(socket)?;
    let length = Duration::from_millis(milliseconds);
    round(&mut server, depth, length / 5)?;
    let clock = Clock::start();
    let count = round(&mut server, depth, length)?;
    Ok(clock.stop(count))
}

fn round(server: &mut UnixStream, depth: usize, length: Duration) -> Result<u64> {
    let calls = vec![1; depth * CALL];
    let mut input = vec![0; BUFFER];
    let clock = Clock::start();
    let (mut on_their_way, mut have, mut count) = (0, 0, 0);
    let mut next = depth;
    loop {
        server.write_all(calls.get(..next * CALL).context("more answers than calls")?)?;
        on_their_way += next;
        let got = server.read(&mut input)?;
        ensure!(got > 0, "the echo has ended");
        have += got;
        next = have / REPLY;
        have %= REPLY;
        on_their_way -= next;
        count += next as u64;
        if clock.elapsed() >= length {
            break;
        }
    }
    // What is still on its way belongs to no later round.
    let rest = on_their_way * REPLY - have;
    server.read_exact(input.get_mut(..rest).context("too deep")?)?;
    Ok(count + on_their_way as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_answered_once_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("echo");
        let path = socket.clone();
        std::thread::spawn(move || serve(&path));
        let begun = std::time::Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        for depth in [1, 3, 64] {
            let sample = measure(&socket, depth, 20).unwrap();
            assert!(sample.count >= depth as u64, "{sample}");
        }
    }
}
