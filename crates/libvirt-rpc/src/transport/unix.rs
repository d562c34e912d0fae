//! UNIX sockets, which also carry file descriptors.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixStream,
};

use super::{READ, Transport};
use crate::{
    Error,
    uri::{self, Uri},
};

/// Connects to the socket of `uri`.
pub(crate) async fn connect(uri: &Uri, read_only: bool) -> Result<Unix, Error> {
    let candidates = sockets(uri, read_only, rustix::process::getuid().is_root())?;
    let path = candidates.iter().find(|p| p.exists()).or_else(|| candidates.last());
    let path = path.map_or_else(PathBuf::new, Clone::clone);
    UnixStream::connect(&path)
        .await
        .and_then(Unix::new)
        .map_err(|e| Error::connect(path.display().to_string(), e))
}

/// The sockets a daemon for `uri` may listen on, best first.
fn sockets(uri: &Uri, read_only: bool, is_root: bool) -> Result<Vec<PathBuf>, uri::Error> {
    if let Some(socket) = uri.parameter("socket") {
        return Ok(vec![socket.into()]);
    }
    let user = uri.is_session() || (!is_root && uri.driver() == "test");
    let (folder, suffix) = if user {
        let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") else {
            return Err(uri::Error::Missing {
                transport: "unix",
                what: "XDG_RUNTIME_DIR in the environment, or `socket=`",
            });
        };
        (Path::new(&runtime).join("libvirt"), "")
    } else {
        // libvirt itself spells it /var/run, not /run.
        (PathBuf::from("/var/run/libvirt"), if read_only { "-ro" } else { "" })
    };
    let legacy = folder.join(format!("libvirt-sock{suffix}"));
    let direct = modular(uri.driver()).map(|daemon| folder.join(format!("{daemon}-sock{suffix}")));
    Ok(match (uri.parameter("mode").unwrap_or("auto"), direct) {
        ("auto", Some(direct)) => vec![direct, legacy],
        ("auto", None) | ("legacy", _) => vec![legacy],
        ("direct", Some(direct)) => vec![direct],
        ("direct", None) => {
            return Err(uri::Error::Parameter {
                name: "mode",
                value: "direct".to_owned(),
                problem: "this driver has no daemon of its own",
            });
        }
        (other, _) => {
            return Err(uri::Error::Parameter {
                name: "mode",
                value: other.to_owned(),
                problem: "auto, legacy or direct is expected",
            });
        }
    })
}

/// The modular daemon that serves a driver.
pub(crate) fn modular(driver: &str) -> Option<&'static str> {
    Some(match driver {
        "qemu" => "virtqemud",
        "lxc" => "virtlxcd",
        "xen" => "virtxend",
        "vbox" => "virtvboxd",
        "bhyve" => "virtbhyved",
        "ch" => "virtchd",
        "vz" => "virtvzd",
        "network" => "virtnetworkd",
        "storage" => "virtstoraged",
        "nodedev" => "virtnodedevd",
        "secret" => "virtsecretd",
        "interface" => "virtinterfaced",
        "nwfilter" => "virtnwfilterd",
        _ => return None,
    })
}

/// Descriptors the kernel may hand over in one read; the protocol allows 32 a message.
const FILES: usize = 32;

/// Bytes under way that are asked for.
const SEND_BUFFER: usize = 1 << 20;

/// A connected socket.
///
/// It is registered for reading only. A socket that is registered for writing too wakes its owner whenever the daemon
/// has taken something out of it, which would be once more for every call.
#[derive(Debug)]
pub(crate) struct Unix {
    socket: AsyncFd<OwnedFd>,
    /// The same socket, registered for writing, for as long as it is full.
    full: Option<AsyncFd<OwnedFd>>,
    /// What a read fills before it joins the rest: `recvmsg` wants initialised memory, and once is enough.
    scratch: Box<[u8]>,
}

impl Unix {
    fn new(socket: UnixStream) -> io::Result<Self> {
        // As large as an unprivileged process may have it; the kernel trims it. A writer is only woken when three quarters
        // of the buffer are free, and what is left then is all that keeps the daemon busy until we have filled it again.
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
        Ok(Self {
            socket: watch(socket.into_std()?.into(), Interest::READABLE)?,
            full: None,
            scratch: vec![0; READ].into(),
        })
    }

    /// Does what writes, when the socket has room for it.
    fn poll_write_io(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut room = match &self.full {
                Some(full) => Some(ready!(full.poll_write_ready(cx))?),
                None => None,
            };
            match (write(self.socket.get_ref().as_fd()), &mut room) {
                (Err(error), Some(room)) if error.kind() == io::ErrorKind::WouldBlock => room.clear_ready(),
                (Err(error), None) if error.kind() == io::ErrorKind::WouldBlock => {
                    let again = self.socket.get_ref().try_clone()?;
                    self.full = Some(watch(again, Interest::WRITABLE)?);
                }
                (done, _) => return Poll::Ready(done),
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its heir is unsafe for the sake of types that can lose their descriptor, which an OwnedFd cannot"
)]
fn watch(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(socket, interest)
}

impl Transport for Unix {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        files: &mut VecDeque<OwnedFd>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            let before = files.len();
            match receive(self.socket.get_ref().as_fd(), &mut self.scratch, buffer, files) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Ok(got) => {
                    // A short read has emptied the socket, and asking again would only cost a system call. Not so one
                    // that ends with descriptors: the kernel stops there whatever follows.
                    if got > 0 && got < self.scratch.len() && files.len() == before {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(got));
                }
                failed => return Poll::Ready(failed),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll_write_io(cx, |socket| {
            let mut control = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(socket, bytes, &mut control, SendFlags::NOSIGNAL)?)
        })
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.full = None;
        Poll::Ready(Ok(()))
    }

    fn poll_send_file(&mut self, cx: &mut Context<'_>, file: &OwnedFd) -> Poll<io::Result<()>> {
        self.poll_write_io(cx, |socket| send_file(socket, file)).map_ok(|_| ())
    }

    fn carries_files(&self) -> bool {
        true
    }
}

fn receive(
    socket: BorrowedFd<'_>,
    scratch: &mut [u8],
    buffer: &mut BytesMut,
    files: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    // A read past the message without room for descriptors would lose them, so every read has it.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(scratch)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    buffer.extend_from_slice(scratch.get(..got.bytes).unwrap_or_default());
    Ok(got.bytes)
}

fn send_file(socket: BorrowedFd<'_>, file: &OwnedFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    // The daemon takes one descriptor with exactly one byte a time.
    Ok(rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&[0])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(uri: &str, read_only: bool) -> Vec<String> {
        let found = sockets(&uri.parse().unwrap(), read_only, true).unwrap();
        found.iter().map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn the_modular_socket_is_tried_before_the_old_one() {
        assert_eq!(
            paths("qemu:///system", false),
            ["/var/run/libvirt/virtqemud-sock", "/var/run/libvirt/libvirt-sock"]
        );
        assert_eq!(paths("test:///default", true), ["/var/run/libvirt/libvirt-sock-ro"]);
        assert_eq!(
            paths("qemu:///system?mode=legacy", false),
            ["/var/run/libvirt/libvirt-sock"]
        );
        assert_eq!(paths("qemu:///system?socket=/x", true), ["/x"]);
    }

    #[test]
    fn a_mode_that_cannot_be_honoured_is_refused() {
        for uri in ["test:///default?mode=direct", "qemu:///system?mode=fast"] {
            assert!(sockets(&uri.parse().unwrap(), false, true).is_err(), "{uri}");
        }
    }
}
