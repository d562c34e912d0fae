//! XDR as libvirt uses it.
//!
//! Everything is big-endian and a multiple of four bytes. `char` arrays spend four bytes on each element ([`Chars`],
//! [`CharArray`]) while `opaque` ones do not ([`Opaque`], [`Uuid`]); strings are bytes that need not be UTF-8 ([`Text`]).

mod bytes;
mod decoder;
mod encoder;
mod text;
mod uuid;

pub use self::{
    bytes::{CharArray, Chars, Opaque},
    decoder::{Decode, Decoder},
    encoder::{Count, Encode, Encoder},
    text::Text,
    uuid::{Uuid, UuidError},
};
