//! The client's side of the wire.

use std::net::SocketAddr;

use bigfleet_proto::{CapacityProviderClient, ListFilter};
use prost::{Message as _, bytes::Buf as _};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};

use crate::Result;

pub(crate) type Client = CapacityProviderClient<Channel>;

/// BigFleet's limit.
const LIMIT: usize = 256 << 20;
/// Wide enough that the server never waits for the client to open it.
const WINDOW: u32 = 64 << 20;

/// A connection of its own.
pub(crate) async fn channel(addr: SocketAddr) -> Result<Channel> {
    let endpoint = Endpoint::new(format!("http://{addr}"))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    Ok(endpoint.connect().await?)
}

/// A client on a connection of its own.
pub(crate) async fn client(addr: SocketAddr) -> Result<Client> {
    let channel = channel(addr).await?;
    Ok(Client::new(channel).max_decoding_message_size(LIMIT))
}

/// A full List whose answer is counted and dropped: decoding it would cost the client more than making it costs the
/// server.
pub(crate) async fn list_size(channel: &Channel) -> Result<usize> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(LIMIT);
    grpc.ready().await?;
    let path = PathAndQuery::from_static("/bigfleet.v1alpha1.CapacityProvider/List");
    let answer = grpc.unary(Request::new(ListFilter::default()), path, Count).await?;
    Ok(answer.into_inner())
}

struct Count;

impl Codec for Count {
    type Encode = ListFilter;
    type Decode = usize;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Count {
    type Item = ListFilter;
    type Error = Status;

    fn encode(&mut self, filter: ListFilter, out: &mut EncodeBuf<'_>) -> std::result::Result<(), Status> {
        filter.encode(out).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Count {
    type Item = usize;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> std::result::Result<Option<usize>, Status> {
        let size = buffer.remaining();
        buffer.advance(size);
        Ok(Some(size))
    }
}
