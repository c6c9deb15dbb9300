//! `bowline completion`: the script itself is `clap_complete`'s; this file only renders it.

use clap_complete::Shell;

use crate::arguments::Arguments;

/// The script that completes the arguments of `bowline` in this shell.
///
/// Rendered in memory, because the generator panics when its writer fails, and the standard output may be closed.
pub(crate) fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::definition(), "bowline", &mut script);
    script
}
