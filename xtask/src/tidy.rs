//! `cargo xtask tidy`: checks that the compiler does not do. Owns the list of checks and the output; each check is a
//! pure function in its own file.

mod banned;
mod edges;
mod ignored;
mod licences;
mod map;
mod opening;
mod problem;
mod reachable;
mod readme;
mod shipped;
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
    let Workspace { metadata, files, trees } = workspace;
    let (members, outsiders) = (metadata.members(), metadata.outsiders());
    let rust_files = workspace.rust_files();
    let text_of = |file: &str| files.get(file).map_or("", String::as_str);
    let fuzz_roots = reachable::fuzz_roots(files);
    let ui_roots = reachable::ui_roots(files);
    let roots = members.iter().flat_map(|member| &member.targets).map(|target| target.src_path.as_str());
    let roots = roots.chain(fuzz_roots.iter().chain(&ui_roots).map(String::as_str));
    vec![
        ("edges", edges::problems(&members)),
        ("shipped", shipped::problems(trees)),
        ("reachable", reachable::problems(roots, &rust_files)),
        ("opening", opening::problems(&rust_files)),
        ("readme", readme::problems(text_of("README.md"), text_of(".ci/run"))),
        ("map", map::problems(files)),
        ("licences", licences::problems(&members, &outsiders)),
        ("banned", banned::problems(&members, &outsiders)),
        ("versions", members.iter().flat_map(|m| versions::problems(m, text_of(&m.manifest_path))).collect()),
        ("ignored", ignored::problems(&rust_files)),
    ]
}
