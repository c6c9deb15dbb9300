//! `cargo xtask tidy`: checks what the compiler does not. Owns the list of the checks and how their problems are
//! printed; each check is a pure function in a file of its own.

mod banned;
mod edges;
mod ignored;
mod licences;
mod opening;
mod problem;
mod reachable;
mod readme;
mod token;
mod versions;

use std::process::ExitCode;

use self::problem::Problem;
use crate::workspace::{Workspace, WorkspaceError};

/// Prints every problem, and fails if there is one.
pub(crate) fn run() -> Result<ExitCode, WorkspaceError> {
    let workspace = Workspace::read()?;
    let checks = checked(&workspace);
    let mut count = 0;
    for (check, problems) in &checks {
        for problem in problems {
            eprintln!("tidy: {check}: {problem}");
        }
        count += problems.len();
    }
    if count == 0 {
        println!("tidy: {} checks, no problem", checks.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} checks, {count} {}", checks.len(), if count == 1 { "problem" } else { "problems" });
    Ok(ExitCode::FAILURE)
}

fn checked(workspace: &Workspace) -> Vec<(&'static str, Vec<Problem>)> {
    let Workspace { metadata, files } = workspace;
    let (members, outsiders) = (metadata.members(), metadata.outsiders());
    let rust_files = workspace.rust_files();
    let text_of = |file: &str| files.get(file).map_or("", String::as_str);
    let fuzz_roots = reachable::fuzz_roots(files);
    let roots = members.iter().flat_map(|member| &member.targets).map(|target| target.src_path.as_str());
    let roots = roots.chain(fuzz_roots.iter().map(String::as_str));
    vec![
        ("edges", edges::problems(&members)),
        ("reachable", reachable::problems(roots, &rust_files)),
        ("opening", opening::problems(&rust_files)),
        ("readme", readme::problems(text_of("README.md"), text_of(".ci/run"))),
        ("licences", licences::problems(&members, &outsiders)),
        ("banned", banned::problems(&members, &outsiders)),
        ("versions", members.iter().flat_map(|m| versions::problems(m, text_of(&m.manifest_path))).collect()),
        ("ignored", ignored::problems(&rust_files)),
    ]
}
