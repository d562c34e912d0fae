//! One client's connection: frames in, frames out, faults in between.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use super::{
    agent,
    call::{Call, Refusal},
    capabilities, connect, domain_define, domain_find, domain_look, domain_power, event,
    fault::Effect,
    host, list, metadata, moment, network, network_update, node_device, pool, secret, stats,
    transfer::{self, Consequence},
    volume,
    world::{World, turn},
};
use crate::wire::{
    frame::{self, Header},
    keepalive::{Ping, Pong},
    net::MessageType,
    procedure::{Info, Procedure as _, Program},
};

/// Calls in work with which a real daemon stops reading (`max_client_requests`).
const REQUESTS: usize = 5;

struct Session<'a> {
    world: &'a Arc<Mutex<World>>,
    id: u64,
    out: BytesMut,
    late: mpsc::UnboundedSender<Vec<u8>>,
    in_work: usize,
}

/// The connection is to be cut.
struct Cut;

/// Serves a client until it leaves or is thrown out.
pub(super) async fn run(world: &Arc<Mutex<World>>, io: impl AsyncRead + AsyncWrite + Unpin + Send) {
    let (outgoing, mut unasked) = mpsc::unbounded_channel();
    let (late, mut answers) = mpsc::unbounded_channel();
    let id = turn(world).welcome(event::Client::new(outgoing));
    let mut session = Session {
        world,
        id,
        out: BytesMut::new(),
        late,
        in_work: 0,
    };
    let (mut reader, mut writer) = tokio::io::split(io);
    let mut input = BytesMut::new();
    loop {
        if session.out.is_empty()
            && let Some(packet) = turn(world).next_packet(id)
        {
            session.out.extend_from_slice(&packet);
        }
        tokio::select! {
            got = reader.read_buf(&mut input), if session.in_work < REQUESTS => {
                if got.is_err() || got.is_ok_and(|got| got == 0) {
                    break;
                }
                if session.take(&mut input).is_err() {
                    break;
                }
            }
            sent = writer.write_buf(&mut session.out), if !session.out.is_empty() => {
                if sent.is_err() {
                    break;
                }
            }
            Some(answer) = answers.recv() => {
                session.in_work -= 1;
                session.out.extend_from_slice(&answer);
                if session.take(&mut input).is_err() {
                    break;
                }
            }
            event = unasked.recv() => match event {
                Some(event) => session.out.extend_from_slice(&event),
                None => break,
            },
        }
    }
    turn(world).sessions.remove(&id);
}

impl Session<'_> {
    /// Takes the whole messages there are, as long as not too many calls are in work.
    fn take(&mut self, input: &mut BytesMut) -> Result<(), Cut> {
        while self.in_work < REQUESTS {
            let length = match frame::length(input) {
                Ok(Some(length)) if length <= input.len() => length,
                Ok(_) => return Ok(()),
                // Real daemons hang up without a word.
                Err(_) => return Err(Cut),
            };
            let message = input.split_to(length);
            let (header, payload) = frame::split(&message).map_err(|_| Cut)?;
            self.message(&header, payload)?;
        }
        input.reserve(1);
        Ok(())
    }

    fn message(&mut self, header: &Header, payload: &[u8]) -> Result<(), Cut> {
        if header.program() == Program::KEEPALIVE {
            if header.proc == Ping::INFO.number
                && let Ok(pong) = frame::message(&Header::event(&Pong::INFO), &())
            {
                self.out.extend_from_slice(&pong);
            }
            return Ok(());
        }
        match header.kind {
            MessageType::CALL => self.call(header, payload),
            MessageType::STREAM | MessageType::STREAM_HOLE => {
                let mut world = turn(self.world);
                let consequence = world.packet(self.id, header, payload);
                world.end().map_err(|_| Cut)?;
                match consequence {
                    Consequence::Send(packet) => self.out.extend_from_slice(&packet),
                    Consequence::Nothing => {}
                    Consequence::HangUp => return Err(Cut),
                }
                Ok(())
            }
            // Silently dropped, as real daemons do.
            _ => Ok(()),
        }
    }

    fn call(&mut self, header: &Header, payload: &[u8]) -> Result<(), Cut> {
        let mut world = turn(self.world);
        let info = Info::find(header.program(), header.proc);
        let effect = info.and_then(|info| world.faults.iter_mut().find_map(|fault| fault.effect(info, payload)));
        let mut delay = world.latency;
        match &effect {
            Some(Effect::CutBefore) => return Err(Cut),
            Some(Effect::Delay(by)) => delay += *by,
            Some(Effect::Refuse(code, message)) => {
                let refusal = Refusal::new(*code, message.clone());
                drop(world);
                self.answer(refusal.frame(header, MessageType::REPLY), delay);
                return Ok(());
            }
            Some(Effect::Unknown) => {
                let refusal = Refusal::rpc(format!("unknown procedure: {}", header.proc));
                drop(world);
                self.answer(refusal.frame(header, MessageType::REPLY), delay);
                return Ok(());
            }
            _ => {}
        }
        let mut call = Call::new(&mut world, self.id, header, payload);
        for area in [
            domain_find::answer,
            domain_define::answer,
            domain_power::answer,
            domain_look::answer,
            metadata::answer,
            moment::answer,
            stats::answer,
            agent::answer,
            pool::answer,
            volume::answer,
            network::answer,
            network_update::answer,
            list::answer,
            secret::answer,
            node_device::answer,
            event::answer,
            transfer::answer,
            host::answer,
            capabilities::answer,
            connect::answer,
        ] {
            area(&mut call);
        }
        let answer = call.finish();
        // What it cannot keep it must not say that it did.
        world.end().map_err(|_| Cut)?;
        match effect {
            Some(Effect::Silence) => self.in_work += 1,
            Some(Effect::CutAfter) => return Err(Cut),
            _ => self.answer(answer, delay),
        }
        Ok(())
    }

    fn answer(&mut self, answer: Vec<u8>, delay: Duration) {
        if delay.is_zero() {
            self.out.extend_from_slice(&answer);
            return;
        }
        self.in_work += 1;
        let late = self.late.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            drop(late.send(answer));
        });
    }
}
