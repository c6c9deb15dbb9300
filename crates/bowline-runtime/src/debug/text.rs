//! The page as text, for a terminal.

use std::fmt::Write as _;

use super::human::{Line, duration};
use super::report::Report;

pub(super) fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing into a string does not fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "{}", report.time)?;
    if let Some(manager) = &report.manager {
        let leadership = manager.leadership.as_str();
        write!(page, "{}, up {}, {leadership}", Line(&manager.identity), duration(manager.uptime))?;
        match &manager.leader {
            Some(leader) => writeln!(page, " (leader: {})", Line(leader))?,
            None => writeln!(page)?,
        }
        let mut table = Table::new(&["RUNNABLE", "STAGE", "STATE"]);
        for runnable in &manager.runnables {
            table.row([&runnable.name, &runnable.stage, &runnable.state]);
        }
        table.write(page, "")?;
    }

    writeln!(page, "\nATTENTION")?;
    if report.attention.is_empty() {
        writeln!(page, "nothing")?;
    }
    for attention in &report.attention {
        writeln!(page, "! {}: {}", Line(&attention.subject), Line(&attention.problem))?;
    }

    let mut table = Table::new(&[
        "CONTROLLER",
        "KIND",
        "STATE",
        "BUSY",
        "READY",
        "DELAYED",
        "SUCCESSES",
        "ERRORS",
        "REQUEUES",
    ]);
    for controller in &report.controllers {
        table.row([
            &controller.name,
            &controller.kind,
            controller.state.as_str(),
            &format!("{}/{}", controller.busy, controller.workers),
            &controller.ready.to_string(),
            &controller.delayed.to_string(),
            &controller.successes.to_string(),
            &controller.errors.to_string(),
            &controller.requeues.to_string(),
        ]);
    }
    table.write(page, "no controllers")?;

    let mut table = Table::new(&["RUNNING", "CONTROLLER", "OBJECT"]);
    for running in &report.running {
        table.row([&duration(running.running), &running.controller, &running.object]);
    }
    table.write(page, "")?;

    delayed(page, report)?;

    let mut table = Table::new(&[
        "INFORMER",
        "FORM",
        "OBJECTS",
        "UNREADABLE",
        "LISTS",
        "WATCHES",
        "FAILURES",
        "BACKLOG",
        "SILENT",
        "PHASE",
    ]);
    for informer in &report.informers {
        let phases: Vec<_> =
            informer.parts.iter().map(|part| format!("{} ({})", part.phase, part.namespaces)).collect();
        table.row([
            &informer.kind,
            &informer.form,
            &informer.objects.to_string(),
            &informer.unreadable_count.to_string(),
            &informer.lists.to_string(),
            &informer.watches.to_string(),
            &informer.failures.to_string(),
            &informer.backlog.to_string(),
            &informer.silent.map_or_else(|| "-".to_owned(), duration),
            &phases.join(", "),
        ]);
    }
    table.write(page, "no informers")?;

    let mut table =
        Table::new(&["ENDED", "TOOK", "CONTROLLER", "OBJECT", "ATTEMPT", "ID", "TRIGGERS", "OUTCOME"]);
    for run in &report.reconciles {
        let mut triggers = run.triggers.join("; ");
        if run.more_triggers > 0 {
            let _ = write!(triggers, "; and {} more", run.more_triggers);
        }
        table.row([
            &format!("{} ago", duration(run.ago)),
            &duration(run.took),
            &run.controller,
            &run.object,
            &run.attempt.to_string(),
            &run.id,
            &triggers,
            &format!("{}{}", if run.is_failure { "! " } else { "" }, run.detail),
        ]);
    }
    table.write(page, "no reconciles")
}

/// The delayed requests.
fn delayed(page: &mut String, report: &Report) -> std::fmt::Result {
    let mut table = Table::new(&["DUE", "IN", "CONTROLLER", "OBJECT"]);
    for delayed in &report.delayed {
        table.row([&delayed.due, &duration(delayed.due_in), &delayed.controller, &delayed.object]);
    }
    table.write(page, "")?;
    let more = report.delayed_count.saturating_sub(report.delayed.len());
    if more > 0 {
        writeln!(page, "{more} more wait for their time")?;
    }
    Ok(())
}

/// Rows with aligned columns.
struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    fn new(head: &[&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    fn row(&mut self, cells: [&str; N]) {
        self.rows
            .push(cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { Line(cell).to_string() }));
    }

    /// Writes the table after an empty line. Without rows it writes `none`, or nothing if that is empty.
    fn write(&self, page: &mut String, none: &str) -> std::fmt::Result {
        match (self.rows.len(), none) {
            (1, "") => return Ok(()),
            (1, none) => return writeln!(page, "\n{none}"),
            _ => writeln!(page)?,
        }
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; N] = std::array::from_fn(width);
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                write!(line, "{cell:width$}  ")?;
            }
            writeln!(page, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
