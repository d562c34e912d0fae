//! The content of volumes, there and back.

use std::io::SeekFrom;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeek, AsyncSeekExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::{
    Connection, Error,
    stream::{Chunk, Stream},
    wire::{
        constant::storage::{StorageVolDownloadFlags, StorageVolUploadFlags},
        frame::STREAM_CHUNK,
        remote::{
            record::StorageVolRef,
            storage_vol::{StorageVolDownload, StorageVolDownloadArgs, StorageVolUpload, StorageVolUploadArgs},
        },
    },
};

impl Connection {
    /// Opens a stream that writes a volume from `offset` on; `length` 0 is as much as there is room for.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn volume_open_upload(
        &self,
        volume: &StorageVolRef,
        offset: u64,
        length: u64,
        flags: StorageVolUploadFlags,
    ) -> Result<Stream, Error> {
        let args = StorageVolUploadArgs {
            vol: volume.clone(),
            offset,
            length,
            flags: flags.bits(),
        };
        self.open_stream::<StorageVolUpload>(&args)
            .await
            .map(|((), stream)| stream)
    }

    /// Opens a stream that reads a volume from `offset` on; `length` 0 is to the end.
    ///
    /// # Errors
    /// When the daemon answers with an error, or no answer comes.
    pub async fn volume_open_download(
        &self,
        volume: &StorageVolRef,
        offset: u64,
        length: u64,
        flags: StorageVolDownloadFlags,
    ) -> Result<Stream, Error> {
        let args = StorageVolDownloadArgs {
            vol: volume.clone(),
            offset,
            length,
            flags: flags.bits(),
        };
        self.open_stream::<StorageVolDownload>(&args)
            .await
            .map(|((), stream)| stream)
    }

    /// Writes everything `source` gives into a volume and returns how many bytes that was.
    ///
    /// With `length` the source must give exactly so many bytes. An error of the source, or another number of bytes,
    /// aborts the transfer: what the volume holds then is undefined, and the connection is as before.
    ///
    /// # Errors
    /// When the source fails or has another length, the daemon gives up, or the connection is lost.
    pub async fn volume_upload(
        &self,
        volume: &StorageVolRef,
        source: impl AsyncRead,
        length: Option<u64>,
    ) -> Result<u64, Error> {
        let mut stream = self
            .volume_open_upload(volume, 0, length.unwrap_or(0), StorageVolUploadFlags::empty())
            .await?;
        let sent = copy_in(&mut stream, source, length).await?;
        stream.finish().await?;
        Ok(sent)
    }

    /// Writes a volume's whole content into `target` and returns how many bytes that was.
    ///
    /// # Errors
    /// When the target fails, the daemon gives up, or the connection is lost.
    pub async fn volume_download(&self, volume: &StorageVolRef, target: impl AsyncWrite) -> Result<u64, Error> {
        let mut target = std::pin::pin!(target);
        let mut stream = self
            .volume_open_download(volume, 0, 0, StorageVolDownloadFlags::empty())
            .await?;
        let mut got = 0;
        while let Some(chunk) = stream.next().await? {
            if let Chunk::Data(data) = chunk {
                got += data.len() as u64;
                target
                    .write_all(&data)
                    .await
                    .map_err(|e| Error::stream("the target of a download failed", Some(e)))?;
            }
        }
        target
            .flush()
            .await
            .map_err(|e| Error::stream("the target of a download failed", Some(e)))?;
        stream.finish().await?;
        Ok(got)
    }

    /// Like [`volume_download`](Self::volume_download), but holes of the volume become holes of the file.
    ///
    /// Returns the size of the volume, holes included. A hole at the end needs the file's length to be set to it.
    ///
    /// # Errors
    /// As [`volume_download`](Self::volume_download).
    pub async fn volume_download_sparse(
        &self,
        volume: &StorageVolRef,
        target: impl AsyncWrite + AsyncSeek,
    ) -> Result<u64, Error> {
        let failed = |e| Error::stream("the target of a download failed", Some(e));
        let mut target = std::pin::pin!(target);
        let mut stream = self
            .volume_open_download(volume, 0, 0, StorageVolDownloadFlags::SPARSE_STREAM)
            .await?;
        let mut position = 0_u64;
        while let Some(chunk) = stream.next().await? {
            match chunk {
                Chunk::Data(data) => {
                    target.seek(SeekFrom::Start(position)).await.map_err(failed)?;
                    target.write_all(&data).await.map_err(failed)?;
                    position += data.len() as u64;
                }
                Chunk::Hole(length) => position = position.saturating_add(length),
            }
        }
        target.flush().await.map_err(failed)?;
        stream.finish().await?;
        Ok(position)
    }

    /// Like [`volume_upload`](Self::volume_upload), but whole blocks of zeroes travel and are stored as holes.
    ///
    /// # Errors
    /// As [`volume_upload`](Self::volume_upload).
    pub async fn volume_upload_sparse(&self, volume: &StorageVolRef, source: impl AsyncRead) -> Result<u64, Error> {
        let mut source = std::pin::pin!(source);
        let mut stream = self
            .volume_open_upload(volume, 0, 0, StorageVolUploadFlags::SPARSE_STREAM)
            .await?;
        let (mut sent, mut hole) = (0, 0);
        loop {
            let block = fill(&mut source).await?;
            sent += block.len() as u64;
            let is_last = block.len() < STREAM_CHUNK;
            if block.iter().all(|byte| *byte == 0) {
                hole += block.len() as u64;
            } else {
                if hole > 0 {
                    stream.send_hole(std::mem::take(&mut hole)).await?;
                }
                stream.send(block).await?;
            }
            if is_last {
                break;
            }
        }
        if hole > 0 {
            stream.send_hole(hole).await?;
        }
        stream.finish().await?;
        Ok(sent)
    }
}

/// Sends everything of a source that must have a length.
async fn copy_in(stream: &mut Stream, source: impl AsyncRead, length: Option<u64>) -> Result<u64, Error> {
    let mut source = std::pin::pin!(source);
    let mut sent = 0;
    loop {
        let block = fill(&mut source).await?;
        let is_last = block.len() < STREAM_CHUNK;
        sent += block.len() as u64;
        if let Some(length) = length.filter(|length| sent > *length || (is_last && sent < *length)) {
            let more = if sent > length { "more" } else { "fewer" };
            return Err(Error::stream(
                format!("the source of an upload has {more} than the {length} bytes promised"),
                None,
            ));
        }
        stream.send(block).await?;
        if is_last {
            return Ok(sent);
        }
    }
}

/// The next whole packet of a source; a shorter one is its last.
async fn fill(source: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, Error> {
    let mut block = BytesMut::with_capacity(STREAM_CHUNK);
    while block.len() < STREAM_CHUNK {
        let room = (STREAM_CHUNK - block.len()) as u64;
        let got = (&mut *source).take(room).read_buf(&mut block).await;
        if got.map_err(|e| Error::stream("the source of an upload failed", Some(e)))? == 0 {
            break;
        }
    }
    Ok(block.freeze())
}
