//! `bowline man`: pages for `man`, from the definition of the command line.

use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::output;

/// Prints the page of a command, or of the whole tool without one.
pub(crate) fn run(command: &[String]) -> ExitCode {
    let mut definition = Arguments::definition();
    // Gives the commands their full names.
    definition.build();
    let mut found = &definition;
    for name in command {
        let Some(subcommand) = found.find_subcommand(name) else {
            let path = command.join(" ");
            return output::usage(&format!("there is no command `bowline {path}`"), "see `bowline --help`");
        };
        found = subcommand;
    }
    let mut page = Vec::new();
    match clap_mangen::Man::new(found.clone()).render(&mut page) {
        Ok(()) => output::print(&page),
        Err(error) => output::fail(&error, None),
    }
}
