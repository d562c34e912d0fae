//! UNIX sockets, which also carry file descriptors.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use tokio::{io::Interest, net::UnixStream};

use super::{READ, Transport};
use crate::{
    Error,
    uri::{self, Uri},
};

/// Connects to the socket of `uri`.
pub(crate) async fn connect(uri: &Uri, read_only: bool) -> Result<UnixStream, Error> {
    let candidates = sockets(uri, read_only, rustix::process::getuid().is_root())?;
    let path = candidates.iter().find(|p| p.exists()).or_else(|| candidates.last());
    let path = path.map_or_else(PathBuf::new, Clone::clone);
    UnixStream::connect(&path)
        .await
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

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Unix {
    socket: UnixStream,
    /// What a read fills before it joins the rest: `recvmsg` wants initialised memory, and once is enough.
    scratch: Box<[u8]>,
}

impl From<UnixStream> for Unix {
    fn from(socket: UnixStream) -> Self {
        Self {
            socket,
            scratch: vec![0; READ].into(),
        }
    }
}

impl Transport for Unix {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        files: &mut VecDeque<OwnedFd>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            let Self { socket, scratch } = self;
            let mut drained = None;
            let done = socket.try_io(Interest::READABLE, || {
                let before = files.len();
                let got = receive(socket, scratch, buffer, files)?;
                // A short read has emptied the socket, and asking again would only cost a system call. Not so one
                // that ends with descriptors: the kernel stops there whatever follows.
                if got > 0 && got < scratch.len() && files.len() == before {
                    drained = Some(got);
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(got)
            });
            match (done, drained) {
                (_, Some(got)) => return Poll::Ready(Ok(got)),
                (Err(error), None) if error.kind() == io::ErrorKind::WouldBlock => {}
                (done, None) => return Poll::Ready(done),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.socket.try_write_vectored(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_send_file(&mut self, cx: &mut Context<'_>, file: &OwnedFd) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.socket.try_io(Interest::WRITABLE, || send_file(&self.socket, file)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn carries_files(&self) -> bool {
        true
    }
}

fn receive(
    socket: &UnixStream,
    scratch: &mut [u8],
    buffer: &mut BytesMut,
    files: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    // A read past the message without room for descriptors would lose them, so every read has it.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        socket.as_fd(),
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

fn send_file(socket: &UnixStream, file: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    // The daemon takes one descriptor with exactly one byte a time.
    rustix::net::sendmsg(socket.as_fd(), &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
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
