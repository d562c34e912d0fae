//! Any bytes as a frame of any procedure: no panic, and no more memory than the bytes can fill.

#![no_main]

use libfuzzer_sys::fuzz_target;
use libvirt_rpc::wire::{Event, PROCEDURES, describe, frame};

fuzz_target!(|data: &[u8]| {
    if let Ok(Some(length)) = frame::length(data)
        && let Some(message) = data.get(..length)
        && let Ok((header, payload)) = frame::split(message)
    {
        drop(describe(header.program(), header.proc, header.serial & 1 == 1, payload));
        drop(Event::decode(header.program(), header.proc, payload));
    }
    // Most inputs are no frame; two bytes choose the type the rest is read as.
    let [a, b, payload @ ..] = data else { return };
    let choice = usize::from(u16::from_be_bytes([*a, *b]));
    let info = PROCEDURES[choice / 2 % PROCEDURES.len()];
    drop(describe(info.program, info.number, choice & 1 == 1, payload));
    drop(Event::decode(info.program, info.number, payload));
});
