//! The HTML page. All text from outside goes through [`Html`].

use std::fmt::{Display, Result, Write as _};

use super::human::{Html, duration};
use super::query::Query;
use super::report::{
    Attention, ControllerReport, ControllerState, InformerReport, LeadershipState, ManagerReport,
    ReconcileReport, Report, RunningReport,
};

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(super) fn page(report: &Report, query: &Query, nonce: &str) -> String {
    let mut page = String::with_capacity(64 << 10);
    // Writing into a string does not fail.
    let _ = write(&mut page, report, query, nonce);
    page
}

fn write(page: &mut String, report: &Report, query: &Query, nonce: &str) -> Result {
    let manager = report.manager.as_ref();
    let title = manager.map_or("bowline", |manager| &manager.identity);
    page.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    if let Some(seconds) = query.refresh {
        write!(page, "<meta http-equiv=\"refresh\" content=\"{seconds}\">")?;
    }
    writeln!(
        page,
        "<title>{} · debug</title><style nonce=\"{nonce}\">{STYLE}</style></head><body>",
        Html(title)
    )?;
    writeln!(page, "<header><h1>{} <small>debug</small></h1>", Html(title))?;
    if let Some(manager) = manager {
        standing(page, manager)?;
    }
    writeln!(page, "<p>{}</p></header><main>", Html(&report.time))?;
    attention(page, &report.attention)?;
    controllers(page, &report.controllers, query)?;
    running(page, &report.running, query)?;
    delayed(page, report, query)?;
    informers(page, &report.informers)?;
    reconciles(page, report, query)?;
    if let Some(manager) = manager {
        runnables(page, manager)?;
    }
    let here = Html(query.encode()).to_string();
    let more = if here == "?" { "" } else { "&amp;" };
    writeln!(
        page,
        "<footer>Times are UTC. The same as <a href=\"{here}{more}format=text\">text</a> or \
         <a href=\"{here}{more}format=json\">JSON</a>.</footer></main></body></html>"
    )
}

fn standing(page: &mut String, manager: &ManagerReport) -> Result {
    let class = match manager.leadership {
        LeadershipState::NoElection | LeadershipState::Leading => "good",
        LeadershipState::Waiting => "",
        LeadershipState::Lost => "bad",
    };
    write!(page, "<p>{}", badge(class, manager.leadership.as_str()))?;
    if let Some(leader) = manager.leader.as_ref().filter(|_| manager.leadership != LeadershipState::Leading) {
        write!(page, " leader: {}", Html(leader))?;
    }
    writeln!(page, "</p><p>up {}</p>", duration(manager.uptime))
}

fn attention(page: &mut String, all: &[Attention]) -> Result {
    if all.is_empty() {
        return writeln!(page, "<p class=\"attention good\">Nothing needs attention.</p>");
    }
    writeln!(page, "<div class=\"attention bad\"><b>Needs attention</b><ul>")?;
    for Attention { subject, problem } in all {
        writeln!(page, "<li><b>{}</b> {}</li>", Html(subject), Html(problem))?;
    }
    writeln!(page, "</ul></div>")
}

fn controllers(page: &mut String, all: &[ControllerReport], query: &Query) -> Result {
    heading(page, "Controllers", all.len())?;
    let head = [
        "Name",
        "Kind",
        "State",
        "#Busy",
        "#Queue",
        "#Later",
        "#Succeeded",
        "#Failed",
        "#Requeued",
        "Watches",
    ];
    table(page, &head, "There are none.", all, |page, controller| {
        let (row, class) = match (controller.state, &controller.error) {
            (_, Some(_)) => ("bad", "bad"),
            (ControllerState::Waiting, _) => ("warn", "warn"),
            (ControllerState::Working, _) => ("", "good"),
            (ControllerState::Stopped | ControllerState::Warm, _) => ("", ""),
        };
        let link = Query { controller: Some(controller.name.clone()), ..query.clone() };
        write!(page, "<tr class=\"{row}\"><td class=\"tight\">{}</td>", anchor(&link, &controller.name))?;
        let group = Html(&controller.group);
        write!(
            page,
            "<td class=\"tight\">{} <span class=\"soft\">{group}</span></td>",
            Html(&controller.kind)
        )?;
        write!(page, "<td class=\"long\">{}", badge(class, controller.state.as_str()))?;
        if let Some(error) = &controller.error {
            write!(page, "<p class=\"note failure\">{}</p>", Html(error))?;
        }
        for reason in &controller.waiting_for {
            write!(page, "<p class=\"note\">for {}</p>", Html(reason))?;
        }
        write!(page, "</td><td class=\"number\">{} / {}</td>", controller.busy, controller.workers)?;
        write!(page, "<td class=\"number\">{}</td>", controller.ready)?;
        write!(page, "<td class=\"number\">{}</td>", controller.delayed)?;
        write!(page, "<td class=\"number\">{}</td>", controller.successes)?;
        write!(page, "{}", alarming(&controller.errors))?;
        write!(page, "<td class=\"number\">{}</td>", controller.requeues)?;
        let leadership = if controller.needs_leadership { "" } else { " · on every replica" };
        let watches = Html(controller.watches.join(", "));
        writeln!(page, "<td class=\"soft\">{watches}{leadership}</td></tr>")
    })
}

fn running(page: &mut String, all: &[RunningReport], query: &Query) -> Result {
    heading(page, "Running now", all.len())?;
    let none = "Nothing: reconciles that are done at once do not show.";
    table(page, &["For", "Controller", "Object"], none, all, |page, running| {
        write!(page, "<tr><td class=\"tight\">{}</td>", duration(running.running))?;
        let object = object(query, &running.controller, &running.object);
        writeln!(
            page,
            "<td class=\"tight\">{}</td><td class=\"rest\">{object}</td></tr>",
            Html(&running.controller)
        )
    })
}

fn delayed(page: &mut String, report: &Report, query: &Query) -> Result {
    heading(page, "Due later", report.delayed_count)?;
    let none = if report.delayed_count == 0 { "Nothing." } else { "None of the next ones fits." };
    let head = ["Due", "#In", "Controller", "Object"];
    table(page, &head, none, &report.delayed, |page, delayed| {
        write!(page, "<tr><td class=\"tight\">{}</td>", Html(&delayed.due))?;
        write!(page, "<td class=\"number\">{}</td>", duration(delayed.due_in))?;
        let object = object(query, &delayed.controller, &delayed.object);
        writeln!(
            page,
            "<td class=\"tight\">{}</td><td class=\"rest\">{object}</td></tr>",
            Html(&delayed.controller)
        )
    })?;
    let more = report.delayed_count.saturating_sub(report.delayed.len());
    if more > 0 && !report.delayed.is_empty() {
        writeln!(page, "<p class=\"soft\">{more} more wait for their time.</p>")?;
    }
    Ok(())
}

fn informers(page: &mut String, all: &[InformerReport]) -> Result {
    heading(page, "Informers", all.len())?;
    let head = [
        "Kind",
        "Form",
        "State",
        "#Objects",
        "#Unreadable",
        "#Lists",
        "#Watches",
        "#Failures",
        "#Backlog",
        "#Heard",
    ];
    let is_one = all.windows(2).all(|pair| pair[0].cluster == pair[1].cluster);
    table(page, &head, "There are none.", all, |page, informer| {
        let is_failing = informer.parts.iter().any(|part| part.error.is_some());
        let row = if is_failing || informer.unreadable_count > 0 { "bad" } else { "" };
        write!(page, "<tr class=\"{row}\"><td class=\"tight\">{}", Html(&informer.kind))?;
        if !is_one {
            write!(page, " <span class=\"soft\">in {}</span>", Html(&informer.cluster))?;
        }
        write!(page, "</td><td>{}</td><td class=\"long\">", Html(&informer.form))?;
        for part in &informer.parts {
            let class = match (&part.error, part.has_synced, &*part.phase) {
                (Some(_), ..) => "bad",
                (None, true, "watching") => "good",
                (None, ..) => "warn",
            };
            write!(
                page,
                "<div>{} <span class=\"soft\">{}</span>",
                badge(class, &part.phase),
                Html(&part.namespaces)
            )?;
            if let Some(error) = &part.error {
                write!(page, "<p class=\"note failure\">{}</p>", Html(error))?;
            }
            page.push_str("</div>");
        }
        for object in &informer.unreadable {
            write!(page, "<p class=\"note failure\">{}: {}</p>", Html(&object.object), Html(&object.error))?;
        }
        write!(
            page,
            "</td><td class=\"number\">{}</td>{}",
            informer.objects,
            alarming(&informer.unreadable_count)
        )?;
        write!(
            page,
            "<td class=\"number\">{}</td><td class=\"number\">{}</td>",
            informer.lists, informer.watches
        )?;
        write!(page, "{}<td class=\"number\">{}</td>", alarming(&informer.failures), informer.backlog)?;
        let heard =
            informer.silent.map_or_else(|| "never".to_owned(), |silent| format!("{} ago", duration(silent)));
        writeln!(page, "<td class=\"number\">{heard}</td></tr>")
    })
}

fn reconciles(page: &mut String, report: &Report, query: &Query) -> Result {
    heading(page, "Last reconciles", report.reconciles.len())?;
    filter(page, query)?;
    let head = ["Began", "#Ended", "#Took", "Controller", "Object", "Triggers", "#Try", "Outcome", "ID"];
    let none = if query.is_narrow() { "None of those that are kept fits." } else { "There were none." };
    table(page, &head, none, &report.reconciles, |page, run| reconcile(page, run, query))
}

fn reconcile(page: &mut String, run: &ReconcileReport, query: &Query) -> Result {
    let (row, class) = if run.is_failure { ("bad", "failure") } else { ("", "") };
    let (started, ago) = (Html(&run.started), duration(run.ago));
    // The time of day suffices to find it in a log of the same day.
    let time = Html(run.started.get(11..19).unwrap_or_default());
    write!(page, "<tr class=\"{row}\"><td class=\"tight\" title=\"{started}\">{time}</td>")?;
    write!(page, "<td class=\"number\">{ago} ago</td>")?;
    write!(
        page,
        "<td class=\"number\">{}</td><td class=\"tight\">{}</td>",
        duration(run.took),
        Html(&run.controller)
    )?;
    write!(page, "<td class=\"object\">{}</td><td>", object(query, &run.controller, &run.object))?;
    for trigger in &run.triggers {
        write!(page, "<div>{}</div>", Html(trigger))?;
    }
    if run.more_triggers > 0 {
        write!(page, "<div class=\"soft\">and {} more</div>", run.more_triggers)?;
    }
    let attempt = if run.attempt > 1 { run.attempt.to_string() } else { String::new() };
    write!(
        page,
        "</td><td class=\"number\">{attempt}</td><td class=\"long {class}\">{}</td>",
        Html(&run.detail)
    )?;
    let id = Html(&run.id);
    writeln!(page, "<td><code class=\"id\" title=\"{id}\">{id}</code></td></tr>")
}

fn filter(page: &mut String, query: &Query) -> Result {
    let value = |value: &Option<String>| Html(value.clone().unwrap_or_default()).to_string();
    let checked = if query.failed { " checked" } else { "" };
    let refresh = query.refresh.map(|seconds| seconds.to_string()).unwrap_or_default();
    writeln!(
        page,
        "<form><label>Controller <input name=\"controller\" value=\"{}\"></label>\
         <label>Object <input name=\"object\" value=\"{}\" placeholder=\"namespace/name\"></label>\
         <label><input type=\"checkbox\" name=\"failed\" value=\"true\"{checked}> only failed</label>\
         <label>At most <input type=\"number\" name=\"limit\" min=\"1\" max=\"256\" value=\"{}\"></label>\
         <label>Refresh after <input type=\"number\" name=\"refresh\" min=\"1\" max=\"3600\" value=\"{refresh}\"> s</label>\
         <button>Show</button> <a href=\"?\">show all</a></form>",
        value(&query.controller),
        value(&query.object),
        query.limit(),
    )
}

fn runnables(page: &mut String, manager: &ManagerReport) -> Result {
    heading(page, "Runnables", manager.runnables.len())?;
    table(page, &["Name", "Stage", "State"], "There are none.", &manager.runnables, |page, runnable| {
        let (name, stage, state) = (Html(&runnable.name), Html(&runnable.stage), Html(&runnable.state));
        writeln!(page, "<tr><td>{name}</td><td>{stage}</td><td>{state}</td></tr>")
    })
}

fn heading(page: &mut String, name: &str, count: usize) -> Result {
    writeln!(page, "<h2>{name} <small>{count}</small></h2>")
}

/// A table; the name of a numeric column begins with `#`.
fn table<T>(
    page: &mut String,
    head: &[&str],
    none: &str,
    all: &[T],
    row: impl Fn(&mut String, &T) -> Result,
) -> Result {
    if all.is_empty() {
        return writeln!(page, "<div class=\"card empty\">{none}</div>");
    }
    page.push_str("<div class=\"card\"><table><thead><tr>");
    for name in head {
        match name.strip_prefix('#') {
            Some(name) => write!(page, "<th class=\"number\">{name}</th>")?,
            None => write!(page, "<th>{name}</th>")?,
        }
    }
    page.push_str("</tr></thead><tbody>\n");
    for one in all {
        row(page, one)?;
    }
    writeln!(page, "</tbody></table></div>")
}

fn badge(class: &str, text: &str) -> String {
    format!("<span class=\"badge {class}\">{}</span>", Html(text))
}

/// A cell for a number that should be zero.
fn alarming(number: &(impl Display + PartialEq + Default)) -> String {
    let class = if *number == Default::default() { "" } else { " failure" };
    format!("<td class=\"number{class}\">{number}</td>")
}

/// An object, as a link to its reconciles.
fn object(query: &Query, controller: &str, object: &str) -> String {
    let (controller, name) = (Some(controller.to_owned()), Some(object.to_owned()));
    anchor(&Query { controller, object: name, ..query.clone() }, object)
}

fn anchor(query: &Query, text: &str) -> String {
    format!("<a href=\"{}\">{}</a>", Html(query.encode()), Html(text))
}
