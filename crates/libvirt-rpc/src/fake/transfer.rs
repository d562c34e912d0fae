//! Streams: volumes up and down, and a console that says what it is told.

use std::collections::VecDeque;

use super::{
    call::{Call, Refusal},
    event,
    pool::NO_SPACE,
    world::World,
};
use crate::{
    stream::Chunk,
    wire::{
        frame::{self, Header, STREAM_CHUNK},
        net::{MessageStatus, MessageType, StreamHole},
        remote::{
            domain::{DomainOpenChannel, DomainOpenConsole},
            record::StorageVolRef,
            storage_vol::{StorageVolDownload, StorageVolUpload},
        },
        xdr::{Decode as _, Decoder, Uuid},
    },
};

/// An open stream of a client.
#[derive(Debug)]
pub(super) enum Flow {
    Upload {
        volume: StorageVolRef,
        at: usize,
        end: Option<usize>,
        sparse: bool,
        failed: bool,
    },
    Download {
        header: Header,
        chunks: VecDeque<Chunk>,
        ended: bool,
    },
    /// A console or a channel, which says what it is told until the domain stops.
    Echo { header: Header, domain: Uuid },
}

/// What a stream packet leads to.
pub(super) enum Consequence {
    Send(Vec<u8>),
    Nothing,
    /// What real daemons do with a hole nobody agreed to.
    HangUp,
}

/// Zeroes in a row that make a hole.
const HOLE: usize = 64 << 10;

pub(super) fn answer(call: &mut Call<'_>) {
    let header = call.header.clone();
    let serial = header.serial;
    call.on_client::<StorageVolUpload>(|world, client, args| {
        world.volume(&args.vol)?;
        let at = usize::try_from(args.offset).unwrap_or(usize::MAX);
        let end = usize::try_from(args.length)
            .ok()
            .filter(|length| *length > 0)
            .map(|length| at + length);
        let flow = Flow::Upload {
            volume: args.vol,
            at,
            end,
            sparse: args.flags & 1 != 0,
            failed: false,
        };
        world.open_flow(client, serial, flow)
    });
    call.on_client::<StorageVolDownload>(|world, client, args| {
        let from = usize::try_from(args.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(args.length)
            .ok()
            .filter(|length| *length > 0)
            .unwrap_or(usize::MAX);
        let part = world.volume(&args.vol)?.content.read(from, from.saturating_add(length));
        let chunks = chunks(&part, args.flags & 1 != 0);
        world.open_flow(
            client,
            serial,
            Flow::Download {
                header,
                chunks,
                ended: false,
            },
        )
    });
    let header = call.header.clone();
    call.on_client::<DomainOpenConsole>(|world, client, args| {
        let domain = world.running(&args.dom)?.uuid;
        let known = world.domains.find(&domain).map(|d| world.guest_of(d));
        world.open_flow(
            client,
            serial,
            Flow::Echo {
                header: header.clone(),
                domain,
            },
        )?;
        if let Some(guest) = known.filter(|guest| !guest.console.is_empty()) {
            world.say(client, &header, &guest.console);
        }
        Ok(())
    });
    let header = call.header.clone();
    call.on_client::<DomainOpenChannel>(|world, client, args| {
        let domain = world.running(&args.dom)?.uuid;
        world.open_flow(client, serial, Flow::Echo { header, domain })
    });
}

fn chunks(content: &[u8], sparse: bool) -> VecDeque<Chunk> {
    let mut out = VecDeque::new();
    for block in content.chunks(if sparse { HOLE } else { STREAM_CHUNK }) {
        let is_hole = sparse && block.iter().all(|byte| *byte == 0);
        match (out.back_mut(), is_hole) {
            (Some(Chunk::Hole(length)), true) => *length += block.len() as u64,
            (_, true) => out.push_back(Chunk::Hole(block.len() as u64)),
            (_, false) => out.push_back(Chunk::Data(block.to_vec().into())),
        }
    }
    out
}

impl World {
    fn open_flow(&mut self, client: u64, serial: u32, flow: Flow) -> Result<(), Refusal> {
        let client = self
            .sessions
            .get_mut(&client)
            .ok_or_else(|| Refusal::invalid("connection not open"))?;
        client.flows.insert(serial, flow);
        Ok(())
    }

    /// What a console says unasked, after the answer to its opening.
    fn say(&mut self, client: u64, header: &Header, text: &[u8]) {
        let data = header.answer(MessageType::STREAM, MessageStatus::CONTINUE);
        if let Some(client) = self.sessions.get(&client)
            && let Ok(packet) = frame::raw(&data, text)
        {
            // A client that is leaving does not read it.
            drop(client.outgoing.send(packet));
        }
    }

    /// The domain stops, and with it what its consoles say.
    pub(super) fn end_consoles(&mut self, uuid: Uuid) {
        let mut ended = Vec::new();
        for (id, client) in &self.sessions {
            for flow in client.flows.values() {
                if let Flow::Echo { header, domain } = flow
                    && *domain == uuid
                {
                    ended.push((*id, header.clone()));
                }
            }
        }
        for (client, header) in ended {
            self.say(client, &header, &[]);
        }
    }

    /// The next packet of any download of a client.
    pub(super) fn next_packet(&mut self, client: u64) -> Option<Vec<u8>> {
        let flows = &mut self.sessions.get_mut(&client)?.flows;
        flows.values_mut().find_map(|flow| {
            let Flow::Download { header, chunks, ended } = flow else {
                return None;
            };
            let data = header.answer(MessageType::STREAM, MessageStatus::CONTINUE);
            match chunks.pop_front() {
                Some(Chunk::Data(bytes)) => frame::raw(&data, &bytes).ok(),
                Some(Chunk::Hole(length)) => {
                    let hole = header.answer(MessageType::STREAM_HOLE, MessageStatus::CONTINUE);
                    let length = i64::try_from(length).unwrap_or(i64::MAX);
                    frame::message(&hole, &StreamHole { length, flags: 0 }).ok()
                }
                None if !*ended => {
                    *ended = true;
                    frame::raw(&data, &[]).ok()
                }
                None => None,
            }
        })
    }

    /// Takes a packet of a client.
    pub(super) fn packet(&mut self, client: u64, header: &Header, payload: &[u8]) -> Consequence {
        let Some(flow) = self
            .sessions
            .get_mut(&client)
            .and_then(|c| c.flows.get_mut(&header.serial))
        else {
            return Consequence::Nothing;
        };
        if header.status != MessageStatus::CONTINUE {
            let failed = matches!(flow, Flow::Upload { failed: true, .. });
            if let Some(client) = self.sessions.get_mut(&client)
                && let Some(Flow::Upload { volume, .. }) = client.flows.remove(&header.serial)
            {
                self.uploaded(&volume);
            }
            if failed {
                return Consequence::Nothing;
            }
            let done = frame::raw(&header.answer(MessageType::STREAM, MessageStatus::OK), &[]);
            return done.map_or(Consequence::Nothing, Consequence::Send);
        }
        match flow {
            Flow::Echo { .. } => {
                let back = frame::raw(&header.answer(MessageType::STREAM, MessageStatus::CONTINUE), payload);
                back.map_or(Consequence::Nothing, Consequence::Send)
            }
            Flow::Download { .. } | Flow::Upload { failed: true, .. } => Consequence::Nothing,
            Flow::Upload {
                volume,
                at,
                end,
                sparse,
                ..
            } => {
                let is_hole = header.kind == MessageType::STREAM_HOLE;
                if is_hole && !*sparse {
                    return Consequence::HangUp;
                }
                let hole = StreamHole::decode(&mut Decoder::new(payload)).ok().filter(|_| is_hole);
                let length = hole.map_or(payload.len(), |hole| usize::try_from(hole.length).unwrap_or(0));
                let (from, to) = (*at, at.saturating_add(length));
                let (wanted, limit) = (volume.clone(), *end);
                *at = to;
                let refused = match limit {
                    Some(limit) if to > limit => Err(Refusal::argument("more than was promised")),
                    _ => self.write(&wanted, from, to, (!is_hole).then_some(payload)),
                };
                if let Err(refusal) = refused {
                    self.fail_flow(client, header.serial);
                    return Consequence::Send(refusal.frame(header, MessageType::STREAM));
                }
                Consequence::Nothing
            }
        }
    }

    /// Writes data, or a hole, into a volume as far as the pool has room.
    fn write(&mut self, wanted: &StorageVolRef, from: usize, to: usize, data: Option<&[u8]>) -> Result<(), Refusal> {
        let Ok(volume) = self.volume(wanted) else {
            return Ok(());
        };
        let before = volume.allocation();
        let after = before.max(to as u64);
        if self.pool_of(wanted)?.charge(before, after).is_none() {
            let message = "cannot write to stream: No space left on device";
            return Err(Refusal::system(NO_SPACE, message));
        }
        self.volume_mut(wanted)?.content.write(from, to, data);
        Ok(())
    }

    /// What the daemon does after an upload: it looks at the volume anew.
    fn uploaded(&mut self, wanted: &StorageVolRef) {
        let Ok(volume) = self.volume_mut(wanted) else { return };
        volume.probe();
        if let Ok(pool) = self.pool_of(wanted).map(|pool| pool.to_ref()) {
            event::pool_refreshed(self, &pool);
        }
    }

    fn fail_flow(&mut self, client: u64, serial: u32) {
        if let Some(Flow::Upload { failed, .. }) = self.sessions.get_mut(&client).and_then(|c| c.flows.get_mut(&serial))
        {
            *failed = true;
        }
    }
}
