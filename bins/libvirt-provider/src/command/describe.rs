//! `completions` and `man`: the command line, for shells and readers of manuals.

use std::io::{self, Write as _};

use clap_complete::Shell;

use super::{Exit, Failure};
use crate::cli;

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
    for mut below in command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned()
    {
        let name = below.get_name().to_owned();
        // The flags of the configuration are the same everywhere, and told once.
        let ids: Vec<_> = below
            .get_arguments()
            .map(|argument| argument.get_id().clone())
            .collect();
        for id in ids {
            let of_configuration = |argument: &clap::Arg| argument.get_help_heading() == Some("Configuration");
            below = below.mut_arg(id, |argument| {
                let hidden = of_configuration(&argument);
                argument.hide(hidden)
            });
        }
        writeln!(text, ".SH \"COMMAND {}\"", name.to_uppercase())?;
        let page = clap_mangen::Man::new(below.disable_help_flag(true).bin_name(format!("{NAME} {name}")));
        page.render_description_section(&mut text)?;
        page.render_synopsis_section(&mut text)?;
        page.render_options_section(&mut text)?;
    }
    io::stdout().lock().write_all(&text)?;
    Ok(Exit::Success)
}
