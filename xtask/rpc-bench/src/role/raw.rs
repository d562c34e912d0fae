//! What the daemon and the socket can do at best: the least client that writes and reads a volume.
//!
//! It blocks, knows one thing to wait for, and has its packets ready before the clock starts.

use std::{
    io::{IoSliceMut, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use libvirt_rpc::wire::{
    frame::{self, HEADER, Header, STREAM_CHUNK},
    net::{MessageError, MessageStatus, MessageType},
    procedure::{Info, Procedure},
    remote::{
        auth::AuthList,
        connect::{ConnectOpen, ConnectOpenArgs},
        record::StorageVolRef,
        storage_pool::{StoragePoolLookupByName, StoragePoolLookupByNameArgs},
        storage_vol::{
            StorageVolDownload, StorageVolDownloadArgs, StorageVolLookupByName, StorageVolLookupByNameArgs,
            StorageVolUpload, StorageVolUploadArgs,
        },
    },
    xdr::{Decode as _, Decoder},
};

use super::{hash, transfer::touched};
use crate::{
    daemon::{POOL, VOLUME},
    sample::{Clock, Sample},
};

/// Of the stream's call; the others are answered before it is made.
const SERIAL: u32 = 100;

pub(super) fn upload(socket: &Path, bytes: usize, seed: u64) -> Result<Sample> {
    let data = hash::pattern(bytes, seed);
    let note = hash::of(&data[..])?;
    let packets = data
        .chunks(STREAM_CHUNK)
        .map(|chunk| packet(&StorageVolUpload::INFO, MessageStatus::CONTINUE, chunk))
        .collect::<Result<Vec<_>>>()?;
    drop(data);
    let end = packet(&StorageVolUpload::INFO, MessageStatus::OK, &[])?;
    let (mut daemon, vol) = Daemon::open(socket)?;
    let args = StorageVolUploadArgs {
        vol,
        offset: 0,
        length: bytes as u64,
        flags: 0,
    };
    let clock = Clock::start();
    daemon.call::<StorageVolUpload>(&args, SERIAL)?;
    for packet in &packets {
        daemon.socket.write_all(packet)?;
    }
    daemon.socket.write_all(&end)?;
    daemon.finish()?;
    let sample = clock.stop(bytes as u64);
    Ok(Sample { note, ..sample })
}

pub(super) fn download(socket: &Path, bytes: usize) -> Result<Sample> {
    let mut target = touched(bytes);
    let end = packet(&StorageVolDownload::INFO, MessageStatus::OK, &[])?;
    let (mut daemon, vol) = Daemon::open(socket)?;
    let args = StorageVolDownloadArgs {
        vol,
        offset: 0,
        length: 0,
        flags: 0,
    };
    let clock = Clock::start();
    daemon.call::<StorageVolDownload>(&args, SERIAL)?;
    let mut got = 0;
    let (mut header, mut length) = daemon.header()?;
    while header.status == MessageStatus::CONTINUE && length > 0 {
        let room = target
            .get_mut(got..got + length)
            .context("more than the volume holds")?;
        got += length;
        (header, length) = daemon.body_and_header(room)?;
    }
    if header.status != MessageStatus::CONTINUE {
        return Err(daemon.complaint(&header, length));
    }
    daemon.socket.write_all(&end)?;
    daemon.finish()?;
    let sample = clock.stop(got as u64);
    ensure!(got == bytes, "got {got} bytes of {bytes}");
    let note = hash::of(&target[..])?;
    Ok(Sample { note, ..sample })
}

fn packet(info: &Info, status: MessageStatus, payload: &[u8]) -> Result<Vec<u8>> {
    let header = Header::call(info, SERIAL).answer(MessageType::STREAM, status);
    Ok(frame::raw(&header, payload)?)
}

struct Daemon {
    socket: UnixStream,
}

impl Daemon {
    /// Opens the daemon and finds the volume.
    fn open(socket: &Path) -> Result<(Self, StorageVolRef)> {
        let socket = UnixStream::connect(socket)?;
        let mut daemon = Self { socket };
        daemon.call::<AuthList>(&(), 1)?;
        let name = Some("qemu:///system".into());
        daemon.call::<ConnectOpen>(&ConnectOpenArgs { name, flags: 0 }, 2)?;
        let name = POOL.into();
        let pool = daemon.call::<StoragePoolLookupByName>(&StoragePoolLookupByNameArgs { name }, 3)?;
        let args = StorageVolLookupByNameArgs {
            pool: pool.pool,
            name: VOLUME.into(),
        };
        let volume = daemon.call::<StorageVolLookupByName>(&args, 4)?;
        Ok((daemon, volume.vol))
    }

    fn call<P: Procedure>(&mut self, args: &P::Args, serial: u32) -> Result<P::Ret> {
        let call = frame::message(&Header::call(&P::INFO, serial), args)?;
        self.socket.write_all(&call)?;
        let (header, length) = self.header()?;
        if header.status != MessageStatus::OK || header.serial != serial {
            return Err(self.complaint(&header, length).context(P::INFO.name));
        }
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload)?;
        Ok(P::Ret::decode(&mut Decoder::new(&payload))?)
    }

    /// The next message's header, and how many bytes follow it.
    fn header(&mut self) -> Result<(Header, usize)> {
        self.body_and_header(&mut [])
    }

    /// Fills `body`, and reads the header after it with as few system calls.
    fn body_and_header(&mut self, body: &mut [u8]) -> Result<(Header, usize)> {
        let mut head = [0; HEADER];
        let (whole, mut have) = (body.len() + HEADER, 0);
        while have < whole {
            let of_head = have.saturating_sub(body.len());
            let parts = &mut [
                IoSliceMut::new(body.get_mut(have..).unwrap_or_default()),
                IoSliceMut::new(head.get_mut(of_head..).unwrap_or_default()),
            ];
            let got = self.socket.read_vectored(parts)?;
            ensure!(got > 0, "the daemon has hung up");
            have += got;
        }
        let length = frame::length(&head)?.context("no length")?;
        let (header, _) = frame::split(&head)?;
        Ok((header, length - HEADER))
    }

    fn finish(&mut self) -> Result<()> {
        let (header, length) = self.header()?;
        if header.status == MessageStatus::OK && length == 0 {
            return Ok(());
        }
        Err(self.complaint(&header, length))
    }

    fn complaint(&mut self, header: &Header, length: usize) -> anyhow::Error {
        let mut read = || -> Result<MessageError> {
            let mut payload = vec![0; length];
            self.socket.read_exact(&mut payload)?;
            if header.status != MessageStatus::ERROR {
                bail!("{header:?} was not expected");
            }
            Ok(MessageError::decode(&mut Decoder::new(&payload))?)
        };
        match read() {
            Ok(error) => anyhow::anyhow!("the daemon said {error:?}"),
            Err(error) => error,
        }
    }
}
