//! One call: decoded, carried out by whoever knows it, encoded.

use super::world::World;
use crate::wire::{
    self,
    constant::error::{ErrorDomain, ErrorNumber},
    frame,
    frame::Header,
    net::{MessageError, MessageStatus, MessageType},
    procedure::{Info, Procedure},
    xdr::{Decode as _, Decoder},
};

/// `VIR_ERR_ERROR`.
const LEVEL: i32 = 2;

/// An error to answer with.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Box<MessageError>);

impl Refusal {
    pub(super) fn new(code: ErrorNumber, message: impl Into<String>) -> Self {
        Self(Box::new(MessageError {
            code: code.0,
            domain: ErrorDomain::QEMU.0,
            message: Some(message.into().into()),
            level: LEVEL,
            int1: -1,
            int2: -1,
            ..MessageError::default()
        }))
    }

    /// An error of the protocol itself.
    pub(super) fn rpc(message: impl Into<String>) -> Self {
        let mut refusal = Self::new(ErrorNumber::ERR_RPC, message);
        refusal.0.domain = ErrorDomain::RPC.0;
        refusal
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorNumber::ERR_OPERATION_INVALID, message)
    }

    pub(super) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(ErrorNumber::ERR_INTERNAL_ERROR, format!("internal error: {message}"))
    }

    pub(super) fn argument(message: impl std::fmt::Display) -> Self {
        Self::new(ErrorNumber::ERR_INVALID_ARG, format!("invalid argument: {message}"))
    }

    /// What the host's system said, with its error number.
    pub(super) fn system(errno: i32, message: impl Into<String>) -> Self {
        let mut refusal = Self::new(ErrorNumber::ERR_SYSTEM_ERROR, message);
        refusal.0.int1 = errno;
        refusal
    }

    /// A whole message that says so.
    pub(super) fn frame(&self, header: &Header, kind: MessageType) -> Vec<u8> {
        frame::message(&header.answer(kind, MessageStatus::ERROR), &*self.0).unwrap_or_default()
    }
}

/// A call on its way through those who may know it.
pub(super) struct Call<'a> {
    pub(super) world: &'a mut World,
    pub(super) client: u64,
    pub(super) header: &'a Header,
    payload: &'a [u8],
    answer: Option<Vec<u8>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(world: &'a mut World, client: u64, header: &'a Header, payload: &'a [u8]) -> Self {
        Self {
            world,
            client,
            header,
            payload,
            answer: None,
        }
    }

    /// Carries the call out, if it is one of `P`.
    pub(super) fn on<P: Procedure>(&mut self, act: impl FnOnce(&mut World, P::Args) -> Result<P::Ret, Refusal>) {
        self.on_client::<P>(|world, _, args| act(world, args));
    }

    /// The same for calls that concern the client.
    pub(super) fn on_client<P: Procedure>(
        &mut self,
        act: impl FnOnce(&mut World, u64, P::Args) -> Result<P::Ret, Refusal>,
    ) {
        if self.answer.is_some() || !self.is(&P::INFO) {
            return;
        }
        let done = P::Args::decode(&mut Decoder::new(self.payload))
            .map_err(|error: wire::Error| Refusal::rpc(format!("Unable to decode message payload: {error}")))
            .and_then(|args| act(self.world, self.client, args))
            .and_then(|ret| {
                let ok = self.header.answer(MessageType::REPLY, MessageStatus::OK);
                frame::message(&ok, &ret).map_err(|error| Refusal::rpc(error.to_string()))
            });
        *self.world.calls.entry(P::INFO.name).or_default() += 1;
        self.answer = Some(done.unwrap_or_else(|refusal| refusal.frame(self.header, MessageType::REPLY)));
    }

    fn is(&self, info: &Info) -> bool {
        self.header.program() == info.program && self.header.proc == info.number
    }

    /// The answer, whoever gave it.
    pub(super) fn finish(self) -> Vec<u8> {
        self.answer.unwrap_or_else(|| {
            let refusal = match Info::find(self.header.program(), self.header.proc) {
                Some(info) => {
                    let message = format!("this function is not supported by the connection driver: {}", info.name);
                    Refusal::new(ErrorNumber::ERR_NO_SUPPORT, message)
                }
                None => Refusal::rpc(format!("unknown procedure: {}", self.header.proc)),
            };
            refusal.frame(self.header, MessageType::REPLY)
        })
    }
}
