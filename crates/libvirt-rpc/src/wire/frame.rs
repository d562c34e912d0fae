//! Messages in a byte stream: a length word that counts itself, six words of header, a payload.

use super::{
    Error,
    net::{MESSAGE_MAX, MessageHeader, MessageStatus, MessageType},
    procedure::{Info, Program},
    xdr::{Decode as _, Decoder, Encode, Encoder},
};

/// Bytes of the length word.
pub const LENGTH: usize = 4;
/// Bytes of the length word and the header.
pub const HEADER: usize = 28;
/// Bytes of the longest message a daemon accepts, its length word included.
pub const MAX: usize = MESSAGE_MAX as usize + LENGTH;
/// Bytes of stream data a packet carries best: daemons send this much, and more makes them grow buffers.
pub const STREAM_CHUNK: usize = 262_120;

/// What a message is about.
pub type Header = MessageHeader;

impl Header {
    /// The header of a call.
    #[must_use]
    pub fn call(info: &Info, serial: u32) -> Self {
        Self {
            prog: info.program.0,
            vers: 1,
            proc: info.number,
            kind: MessageType::CALL,
            serial,
            status: MessageStatus::OK,
        }
    }

    /// The header of an event or a ping.
    #[must_use]
    pub fn event(info: &Info) -> Self {
        Self {
            kind: MessageType::MESSAGE,
            ..Self::call(info, 0)
        }
    }

    /// The header of what answers or continues a message.
    #[must_use]
    pub fn answer(&self, kind: MessageType, status: MessageStatus) -> Self {
        Self {
            kind,
            status,
            ..self.clone()
        }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> Program {
        Program(self.prog)
    }
}

/// A whole message: the header and everything after it.
///
/// # Errors
/// When the payload breaks a limit or makes the message too long.
pub fn message(header: &Header, payload: &impl Encode) -> Result<Vec<u8>, Error> {
    let mut out = start(header, 128)?;
    payload.encode(&mut Encoder::new(&mut out))?;
    finish(out)
}

/// A whole message with a payload that is no XDR: stream data.
///
/// # Errors
/// When the message is too long.
pub fn raw(header: &Header, payload: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = start(header, HEADER + payload.len())?;
    out.extend_from_slice(payload);
    finish(out)
}

/// What goes before so many bytes of stream data to make them a whole message.
///
/// # Errors
/// When the message is too long.
pub fn head(header: &Header, payload: usize) -> Result<Vec<u8>, Error> {
    let mut out = start(header, HEADER)?;
    let length = u32::try_from(HEADER + payload).unwrap_or(u32::MAX);
    if HEADER + payload > MAX {
        return Err(Error::FrameLength { length });
    }
    if let Some(word) = out.first_chunk_mut() {
        *word = length.to_be_bytes();
    }
    Ok(out)
}

fn start(header: &Header, capacity: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(&[0; LENGTH]);
    header.encode(&mut Encoder::new(&mut out))?;
    Ok(out)
}

fn finish(mut out: Vec<u8>) -> Result<Vec<u8>, Error> {
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    if out.len() > MAX {
        return Err(Error::FrameLength { length });
    }
    if let Some(word) = out.first_chunk_mut() {
        *word = length.to_be_bytes();
    }
    Ok(out)
}

/// Writes the serial into a whole message, so that it can be chosen when all else is encoded.
pub fn set_serial(message: &mut [u8], serial: u32) {
    if let Some(word) = message.get_mut(20..24) {
        word.copy_from_slice(&serial.to_be_bytes());
    }
}

/// Length of the first message in `bytes`, its length word included; `None` when that word is not whole yet.
///
/// # Errors
/// When the length is one no peer may send.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(word) = bytes.first_chunk() else {
        return Ok(None);
    };
    let word = u32::from_be_bytes(*word);
    match usize::try_from(word) {
        Ok(length) if (HEADER..=MAX).contains(&length) => Ok(Some(length)),
        _ => Err(Error::FrameLength { length: word }),
    }
}

/// Splits a whole message, its length word included, into header and payload.
///
/// # Errors
/// When it is shorter than a header.
pub fn split(message: &[u8]) -> Result<(Header, &[u8]), Error> {
    let mut from = Decoder::new(message.get(LENGTH..).unwrap_or_default());
    let header = Header::decode(&mut from)?;
    Ok((header, from.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        procedure::Procedure,
        remote::{connect::ConnectOpen, connect::ConnectOpenArgs},
    };

    #[test]
    fn a_message_is_what_virsh_sends() {
        let header = Header::call(&ConnectOpen::INFO, 2);
        let args = ConnectOpenArgs {
            name: Some("test:///default".into()),
            flags: 0,
        };
        let bytes = message(&header, &args).unwrap();
        let expected = b"\0\0\0\x38\x20\0\x80\x86\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\
            \0\0\0\x01\0\0\0\x0ftest:///default\0\0\0\0\0";
        assert_eq!(bytes, expected);
        assert_eq!(length(&bytes), Ok(Some(bytes.len())));
        let mut again = bytes.clone();
        set_serial(&mut again, 77);
        assert_eq!(split(&again).unwrap().0.serial, 77);
        let (back, payload) = split(&bytes).unwrap();
        assert_eq!(back, header);
        assert_eq!(ConnectOpenArgs::decode(&mut Decoder::new(payload)), Ok(args));
    }

    #[test]
    fn lengths_a_daemon_hangs_up_on_are_refused() {
        for word in [0, 3, 4, 10, 27, 33_554_437, u32::MAX] {
            assert_eq!(length(&word.to_be_bytes()), Err(Error::FrameLength { length: word }));
        }
        assert_eq!(length(&33_554_436_u32.to_be_bytes()), Ok(Some(MAX)));
        assert_eq!(length(&[0, 0, 0]), Ok(None));
    }

    #[test]
    fn a_message_that_is_too_long_is_never_sent() {
        let header = Header::call(&ConnectOpen::INFO, 0);
        assert!(raw(&header, &vec![0; MAX - HEADER]).is_ok());
        assert!(raw(&header, &vec![0; MAX - HEADER + 1]).is_err());
    }
}
