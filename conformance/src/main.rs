//! `bigfleet-conformance`: certifies a BigFleet capacity provider from the command line.

mod cli;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = cli::with_old_spellings(std::env::args_os());
    let command = cli::Arguments::command();
    let parsed = command.try_get_matches_from(arguments);
    let arguments = match parsed.and_then(|matches| cli::Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed the same way, and are no mistakes.
            error.print().ok();
            return if error.use_stderr() {
                ExitCode::from(cli::SETUP_ERROR)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match Box::pin(arguments.execute()).await {
        Ok(code) => code,
        Err(error) => {
            cli::complain(&error);
            ExitCode::from(cli::SETUP_ERROR)
        }
    }
}
