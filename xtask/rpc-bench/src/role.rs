//! What this program is when it is started by itself.

mod calls;
mod echo;
mod events;
mod fake;
pub(crate) mod hash;
mod raw;
mod transfer;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};

use crate::sample::Sample;

/// Servers and clients; a client prints its sample.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Our client making one call over and over
    Calls {
        uri: String,
        call: Call,
        depth: usize,
        milliseconds: u64,
    },
    /// The fake daemon
    Fake { socket: PathBuf },
    /// A server that answers so many bytes with so many
    Echo { socket: PathBuf },
    /// Its client
    Ping {
        socket: PathBuf,
        depth: usize,
        milliseconds: u64,
    },
    /// Our client writing the volume
    Upload { uri: String, bytes: usize, seed: u64 },
    /// Our client reading it
    Download { uri: String, bytes: usize },
    /// The same with prepared packets on the bare socket
    RawUpload { socket: PathBuf, bytes: usize, seed: u64 },
    /// The same without a client
    RawDownload { socket: PathBuf, bytes: usize },
    /// Our client subscribed to what another connection causes
    Events {
        uri: String,
        subscribers: usize,
        milliseconds: u64,
    },
}

/// A call that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Call {
    LibVersion,
    Lookup,
    List,
    Xml,
}

impl Call {
    pub(crate) const ALL: [Self; 4] = [Self::LibVersion, Self::Lookup, Self::List, Self::Xml];

    /// As on the command line of both clients.
    pub(crate) const fn argument(self) -> &'static str {
        match self {
            Self::LibVersion => "lib-version",
            Self::Lookup => "lookup",
            Self::List => "list",
            Self::Xml => "xml",
        }
    }

    /// As the protocol has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LibVersion => "GET_LIB_VERSION",
            Self::Lookup => "LOOKUP_BY_UUID",
            Self::List => "LIST_ALL_DOMAINS",
            Self::Xml => "GET_XML_DESC",
        }
    }
}

impl Role {
    pub(crate) fn run(&self) -> Result<()> {
        let sample = match self {
            Self::Fake { socket } => return fake::serve(socket),
            Self::Echo { socket } => return echo::serve(socket),
            Self::Calls {
                uri,
                call,
                depth,
                milliseconds,
            } => on_runtime(calls::measure(uri, *call, *depth, *milliseconds)),
            Self::Ping {
                socket,
                depth,
                milliseconds,
            } => echo::measure(socket, *depth, *milliseconds),
            Self::Upload { uri, bytes, seed } => on_runtime(transfer::upload(uri, *bytes, *seed)),
            Self::Download { uri, bytes } => on_runtime(transfer::download(uri, *bytes)),
            Self::RawUpload { socket, bytes, seed } => raw::upload(socket, *bytes, *seed),
            Self::RawDownload { socket, bytes } => raw::download(socket, *bytes),
            Self::Events {
                uri,
                subscribers,
                milliseconds,
            } => on_runtime(events::measure(uri, *subscribers, *milliseconds)),
        }?;
        println!("{sample}");
        Ok(())
    }
}

/// A client has one core, and so one thread.
fn on_runtime(measure: impl Future<Output = Result<Sample>>) -> Result<Sample> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().context("starting the runtime")?;
    runtime.block_on(measure)
}
