//! `bowline create api`: a kind, its controller, tests and a sample, wired into the operator of a project.

mod builtin;
mod error;
mod files;
mod plan;

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::arguments::CreateApi;
use crate::changes::{Changes, Interrupts};
use crate::output;
use crate::project::Project;
use crate::source::{SourceTree, Wiring};
use error::CreateError;
use plan::{Plan, Planner};

/// Creates an API in the project of the current folder.
pub(crate) fn run(arguments: &CreateApi) -> ExitCode {
    match create(arguments) {
        Ok(plan) => {
            for note in plan.notes.iter().chain(&unplaced(&plan.wiring)) {
                output::note(note);
            }
            output::print(report(&plan, arguments).as_bytes())
        }
        Err(error) => output::fail(&error, error.hint().as_deref()),
    }
}

fn create(arguments: &CreateApi) -> Result<Plan, CreateError> {
    let mut interrupts = Interrupts::listen();
    let project = Project::find()?;
    let tree = SourceTree::read(&project.root).map_err(|error| CreateError::Read {
        path: error.path.display().to_string(),
        source: error.source,
    })?;
    let plan = Planner::new(arguments, &project, &tree)?.plan()?;
    let mut changes = Changes::default();
    for file in &plan.files {
        let path = project.root.join(&file.path);
        if file.replaces {
            changes.replace(path, file.text.clone());
        } else {
            changes.create(path, file.text.clone());
        }
    }
    for (path, text) in &plan.wiring.changed {
        let old = tree.source(path).map(|source| source.text.clone()).unwrap_or_default();
        changes.edit(project.root.join(path), old, text.clone());
    }
    changes.write(|| interrupts.arrived())?;
    Ok(plan)
}

/// The lines that the user has to add.
fn unplaced(wiring: &Wiring) -> Option<String> {
    if wiring.unplaced.is_empty() {
        return None;
    }
    let mut note = "add these lines to make it part of the operator:".to_owned();
    for unplaced in &wiring.unplaced {
        let _ = write!(note, "\n  {}:\n    {}", unplaced.place, unplaced.line);
    }
    Some(note)
}

/// What was written, and what to do next.
fn report(plan: &Plan, arguments: &CreateApi) -> String {
    let mut report = String::new();
    for file in &plan.files {
        let _ = writeln!(report, "wrote {}", file.path);
    }
    for path in plan.wiring.changed.keys() {
        let _ = writeln!(report, "changed {path}");
    }
    let what = if arguments.no_resource { "`reconcile`" } else { "the spec, the status and `reconcile`" };
    let _ = write!(report, "\nNext: edit {what} in {}, then try\n  cargo test\n", plan.files[0].path);
    match plan.files.get(1) {
        Some(sample) => {
            let _ = writeln!(report, "  cargo run -- --apply {}", sample.path);
        }
        None => report.push_str("  cargo run\n"),
    }
    report.push_str("  bowline dev\n");
    report
}
