//! `completions` and `man`: the command line, for shells and readers of manuals.

use std::io::{self, Write as _};

use clap_complete::Shell;

use super::{Exit, Failure};
use crate::cli::{self, CONFIGURATION};

const NAME: &str = "libvirt-provider";

pub(super) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), NAME, &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(Exit::Success)
}

/// One page for all commands: it is what people search in.
pub(super) fn manual() -> Result<Exit, Failure> {
    let mut text = Vec::new();
    let command = cli::command();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    commands(&command, NAME, &mut text)?;
    io::stdout().lock().write_all(&text)?;
    Ok(Exit::Success)
}

/// Every command below one that does something itself.
fn commands(above: &clap::Command, path: &str, text: &mut Vec<u8>) -> io::Result<()> {
    for command in above.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            commands(command, &path, text)?;
            continue;
        }
        let title = path.strip_prefix(NAME).unwrap_or(&path);
        writeln!(text, ".SH \"COMMAND{}\"", title.to_uppercase())?;
        let page = clap_mangen::Man::new(without_configuration(command).disable_help_flag(true).bin_name(path));
        page.render_description_section(text)?;
        page.render_synopsis_section(text)?;
        page.render_options_section(text)?;
    }
    Ok(())
}

/// The flags of the configuration are the same everywhere, and told once.
fn without_configuration(command: &clap::Command) -> clap::Command {
    let ids: Vec<_> = command
        .get_arguments()
        .map(|argument| argument.get_id().clone())
        .collect();
    ids.into_iter().fold(command.clone(), |command, id| {
        command.mut_arg(id, |argument| {
            let is_of_configuration = argument.get_help_heading() == Some(CONFIGURATION);
            argument.hide(is_of_configuration)
        })
    })
}
