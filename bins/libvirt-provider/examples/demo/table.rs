//! The live table: redrawn in place on a terminal, a line for each change elsewhere.

use std::{
    collections::BTreeMap,
    env,
    io::{self, IsTerminal as _, Write as _},
    time::Instant,
};

use bigfleet_proto::{Machine, MachineState};

use crate::walk::Step;

const CLEAR_TO_END: &str = "\x1b[J";
const RESET: &str = "\x1b[0m";
/// Length of a UUID, and how much of it tells one from others.
const UUID: usize = 36;
const HOST: usize = 8;

pub(crate) struct Table {
    in_place: bool,
    colour: bool,
    height: usize,
    begun: Instant,
    shown: BTreeMap<String, i32>,
}

impl Table {
    pub(crate) fn new() -> Self {
        let in_place = io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            in_place,
            colour: in_place && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            height: 0,
            begun: Instant::now(),
            shown: BTreeMap::new(),
        }
    }

    pub(crate) fn draw(&mut self, steps: &[Step]) {
        let text = if self.in_place {
            self.whole(steps)
        } else {
            self.changes(steps)
        };
        let mut out = io::stdout().lock();
        // A reader that went away is no reason to stop the walk.
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    /// Leaves what is on the screen, which is being written below; the next table comes below that.
    pub(crate) fn leave(&mut self) {
        self.height = 0;
        println!();
    }

    fn whole(&mut self, steps: &[Step]) -> String {
        let id = width(steps, "machine", |machine| &machine.id);
        let kind = width(steps, "type", |machine| &machine.instance_type);
        let zone = width(steps, "zone", |machine| &machine.zone);
        let host = width(steps, "host", host_of);
        let mut text = if self.height == 0 {
            String::new()
        } else {
            format!("\x1b[{}A\r{CLEAR_TO_END}", self.height)
        };
        text += &format!(
            "{:<id$}  {:<kind$}  {:<zone$}  {:<11}  {:<host$}  {:<7}  {:<8}  {:>7}\n",
            "machine", "type", "zone", "state", "host", "cluster", "op", "seconds"
        );
        for step in steps {
            let machine = step.machine();
            let state = self.paint(machine.state(), &format!("{:<11}", name(machine.state())));
            text += &format!(
                "{:<id$}  {:<kind$}  {:<zone$}  {state}  {:<host$}  {:<7}  {:<8}  {:>7.1}\n",
                machine.id,
                machine.instance_type,
                machine.zone,
                host_of(machine),
                or_dash(&machine.cluster),
                short(step.operation()),
                step.rested().as_secs_f64(),
            );
        }
        self.height = steps.len() + 1;
        text
    }

    fn changes(&mut self, steps: &[Step]) -> String {
        let mut text = String::new();
        for step in steps {
            let machine = step.machine();
            if self.shown.insert(machine.id.clone(), machine.state) == Some(machine.state) {
                continue;
            }
            text += &format!(
                "{:>6.1} s  {}  {}  {}  {:<11}  {:<17}  {:<7}  {}  after {:.1} s\n",
                self.begun.elapsed().as_secs_f64(),
                machine.id,
                machine.instance_type,
                machine.zone,
                name(machine.state()),
                host_of(machine),
                or_dash(&machine.cluster),
                short(step.operation()),
                step.before().as_secs_f64(),
            );
        }
        text
    }

    fn paint(&self, state: MachineState, text: &str) -> String {
        let code = match state {
            MachineState::Configured => "\x1b[32m",
            MachineState::Idle => "\x1b[36m",
            MachineState::Failed => "\x1b[31m",
            MachineState::Speculative | MachineState::Unspecified => "\x1b[2m",
            _ => "\x1b[33m",
        };
        if self.colour {
            format!("{code}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }
}

fn width(steps: &[Step], title: &str, column: impl Fn(&Machine) -> &str) -> usize {
    let widths = steps.iter().map(|step| column(step.machine()).chars().count());
    widths.max().unwrap_or_default().max(title.len())
}

fn name(state: MachineState) -> &'static str {
    state.as_str_name().trim_start_matches("MACHINE_STATE_")
}

/// Where a machine is: the provider's id of it without its scheme, and of a UUID at its end the beginning.
fn host_of(machine: &Machine) -> &str {
    let reference = machine.host.as_ref().map_or("-", |host| &host.r#ref);
    let place = reference.split_once("://").map_or(reference, |(_, place)| place);
    let last = place.rfind('/').map_or(0, |slash| slash + 1);
    let is_uuid = place.len() - last == UUID;
    place.get(..last + HOST).filter(|_| is_uuid).unwrap_or(place)
}

/// The last digits: ids that are minted together begin alike.
fn short(operation: &str) -> &str {
    let start = operation.len().saturating_sub(8);
    or_dash(operation.get(start..).unwrap_or(operation))
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
