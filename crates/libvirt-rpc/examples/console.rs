//! The serial console of a domain, as `virsh console` shows it: `console URI DOMAIN`.
//!
//! On a terminal every key goes to the guest, but for ^] (Ctrl + ]), which ends it. It also ends when the domain stops,
//! and when its input does, if that is no terminal. Somebody else who has the console open loses it (`--force`).

#![allow(clippy::print_stderr, reason = "it is a command")]

use std::{
    error::Error,
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use libvirt_rpc::{Connection, stream::Stream, wire::constant::domain::DomainConsoleFlags};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split, stdin, stdout};

/// ^].
const ESCAPE: u8 = 0x1d;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(uri), Some(name)) = (args.next(), args.next()) else {
        return Err("usage: console URI DOMAIN".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(console(&uri, &name));
    // A read of the terminal cannot be called off; it must not keep the program.
    runtime.shutdown_background();
    done
}

async fn console(uri: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let connection = Connection::open(uri).await?;
    let domain = connection.domain_lookup_by_name(name).await?;
    let console = connection
        .domain_open_console(&domain, None, DomainConsoleFlags::FORCE)
        .await?;
    eprintln!("Connected to domain '{name}'\nEscape character is ^] (Ctrl + ])");
    let raw = Raw::begin()?;
    let (from, to) = split(console);
    let done = tokio::select! {
        done = type_in(to) => done,
        done = show(from) => done,
    };
    drop(raw);
    eprintln!();
    Ok(done?)
}

/// What is typed, up to the escape character.
async fn type_in(mut to: WriteHalf<Stream>) -> io::Result<()> {
    let (mut input, mut keys) = (stdin(), [0; 1024]);
    loop {
        let got = input.read(&mut keys).await?;
        let typed = keys.get(..got).unwrap_or_default();
        let wanted = typed.split(|key| *key == ESCAPE).next().unwrap_or_default();
        to.write_all(wanted).await?;
        to.flush().await?;
        if got == 0 || wanted.len() < typed.len() {
            return Ok(());
        }
    }
}

/// What the guest says, until it is off.
async fn show(mut from: ReadHalf<Stream>) -> io::Result<()> {
    let (mut output, mut text) = (stdout(), [0; 4096]);
    loop {
        let got = from.read(&mut text).await?;
        output.write_all(text.get(..got).unwrap_or_default()).await?;
        output.flush().await?;
        if got == 0 {
            return Ok(());
        }
    }
}

/// The terminal as the guest wants it, and afterwards as it was.
struct Raw(Option<Termios>);

impl Raw {
    fn begin() -> io::Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self(None));
        }
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // Nothing is left to be done about a terminal that is gone.
            tcsetattr(io::stdin(), OptionalActions::Flush, before).ok();
        }
    }
}
