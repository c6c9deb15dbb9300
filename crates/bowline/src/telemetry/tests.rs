//! Log lines, as text and as JSON.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing::{debug, error, info, info_span, warn};
use tracing_log::log::{self, Log as _, Record};

use super::*;

/// The log of a function.
fn logged(options: &Options, run: impl FnOnce()) -> Vec<String> {
    let lines = Arc::new(Mutex::new(String::new()));
    let written = lines.clone();
    let (dispatch, _telemetry) =
        build(options, false, move |line| written.lock().unwrap().push_str(line)).unwrap();
    tracing::dispatcher::with_default(&dispatch, run);
    let lines = lines.lock().unwrap();
    lines.lines().map(str::to_owned).collect()
}

fn as_json(line: &str) -> Value {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let time = value.as_object_mut().unwrap().remove("ts").unwrap();
    let time = time.as_str().unwrap();
    assert!(time.len() == 27 && time.ends_with('Z') && time.contains('T'), "{time}");
    value
}

fn reconcile() -> tracing::Span {
    info_span!("reconcile", controller = "foo", namespace = "default", name = "web", controllerGroup = "")
}

#[test]
fn a_json_line_has_the_fields_of_the_spans_around_it() {
    let lines = logged(&Options::new().format(Format::Json), || {
        let _outer = reconcile().entered();
        let _inner = info_span!("step", name = "inner", step = 2, late = tracing::field::Empty).entered();
        tracing::Span::current().record("late", true);
        info!(attempt = 3_u64, share = 0.5, error = ?"no", level = "mine", "it is {}", "done");
    });
    assert_eq!(lines.len(), 1);
    let expected = json!({
        "level": "info", "logger": "bowline::telemetry::tests", "msg": "it is done", "controller": "foo",
        "namespace": "default", "name": "inner", "controllerGroup": "", "step": 2, "late": true, "attempt": 3,
        "share": 0.5, "error": "\"no\"", "fields.level": "mine",
    });
    assert_eq!(as_json(&lines[0]), expected);
    assert!(
        lines[0].contains(r#""msg":"it is done","controller":"foo","#),
        "the order helps people: {}",
        lines[0]
    );
}

#[test]
fn of_several_values_of_a_field_the_last_is_shown() {
    let lines = logged(&Options::new().format(Format::Json), || {
        let span = info_span!("step", done = 0, of = "many", phase = tracing::field::Empty).entered();
        for done in 1..=1000 {
            span.record("done", done);
            span.record("phase", "on its \"way\"\n");
        }
        info!(of = 1000, "{}", r"a \ b");
    });
    let expected = json!({
        "level": "info", "logger": "bowline::telemetry::tests", "msg": r"a \ b", "done": 1000, "of": 1000,
        "phase": "on its \"way\"\n",
    });
    assert_eq!(as_json(&lines[0]), expected);
    assert!(lines[0].contains(r#""done":1000,"phase":"#), "{}", lines[0]);
}

#[test]
fn what_is_meant_for_traces_is_not_logged() {
    let lines = logged(&Options::new(), || {
        let _span = info_span!("reconcile", otel.kind = "internal", name = "web").entered();
        info!(otel.status_code = "OK", share = f64::INFINITY, "done");
    });
    assert!(lines[0].ends_with(": done share=inf name=web"), "{}", lines[0]);
}

#[test]
fn a_text_line_says_what_happened_before_what_it_is_about() {
    let lines = logged(&Options::new(), || {
        let _span = reconcile().entered();
        warn!(error = "not found", attempt = 1, "failed");
    });
    let (time, rest) = lines[0].split_once(' ').unwrap();
    assert_eq!(time.len(), 27);
    let about = "controller=foo namespace=default name=web";
    assert_eq!(
        rest,
        format!(" WARN bowline::telemetry::tests: failed error=\"not found\" attempt=1 {about}")
    );
}

#[test]
fn nobody_forges_a_line() {
    let evil = "x\n2026-01-01T00:00:00Z ERROR bowline: forged\u{1b}[31m";
    for format in [Format::Text, Format::Json] {
        let lines = logged(&Options::new().format(format), || {
            let _span = info_span!("reconcile", name = evil).entered();
            info!(error = evil, "{evil}");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(!lines[0].contains('\u{1b}'), "{}", lines[0]);
    }
}

#[test]
fn characters_that_hide_or_turn_text_are_escaped() {
    for evil in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{2060}', '\u{feff}', '\u{2028}'] {
        let lines = logged(&Options::new(), || {
            let (word, words) = (format!("a{evil}b"), format!("a {evil}b"));
            info!(word, words, "said {evil}");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(!lines[0].contains(evil), "{:?}", lines[0]);
        let code = evil.escape_default().to_string();
        assert_eq!(lines[0].matches(&code).count(), 3, "{}", lines[0]);
    }
}

#[test]
fn an_error_is_shown_with_its_sources_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write Foo default/web")]
    struct Outer(#[source] io::Error);
    let lines = logged(&Options::new().format(Format::Json), || {
        let outer = Outer(io::Error::other("the server is away"));
        error!(error = &outer as &dyn std::error::Error, "failed");
    });
    assert_eq!(as_json(&lines[0])["error"], "cannot write Foo default/web: the server is away");
}

#[test]
fn levels_are_by_target_and_spans_stay_whatever_the_level() {
    let run = || {
        let _span = reconcile().entered();
        debug!(target: "bowline_cache::reflector", "seen");
        debug!("not seen");
        info!("not seen either");
        warn!("seen");
    };
    let options = Options::new().level("warn, bowline_cache=debug").format(Format::Json);
    let lines: Vec<_> = logged(&options, run).iter().map(|line| as_json(line)).collect();
    let said: Vec<_> = lines.iter().map(|line| (line["msg"].as_str(), line["controller"].as_str())).collect();
    assert_eq!(said, [(Some("seen"), Some("foo")), (Some("seen"), Some("foo"))]);
    assert!(logged(&Options::new().level("off"), run).is_empty());
}

#[test]
fn records_of_the_crate_log_are_lines_like_others() {
    let level = "warn,driver=info";
    let records = Records::new(level.parse().unwrap());
    let say = |level, target, text: &str| {
        records.log(&Record::builder().level(level).target(target).args(format_args!("{text}")).build());
    };
    let lines = logged(&Options::new().level(level).format(Format::Json), || {
        let _span = reconcile().entered();
        say(log::Level::Info, "driver::pool", "seen");
        say(log::Level::Debug, "driver::pool", "not seen");
        warn!("seen");
        say(log::Level::Info, "elsewhere", "not seen");
        warn!("seen");
    });
    let lines: Vec<_> = lines.iter().map(|line| as_json(line)).collect();
    let expected = json!({
        "level": "info", "logger": "driver::pool", "msg": "seen", "controller": "foo", "namespace": "default",
        "name": "web", "controllerGroup": "",
    });
    assert_eq!(lines[0], expected);
    let said: Vec<_> = lines.iter().map(|line| line["msg"].as_str().unwrap()).collect();
    assert_eq!(said, ["seen"; 3]);
}

#[test]
fn a_level_that_is_none_is_refused_with_what_to_write() {
    let refused = |level: &str| dispatch(&Options::new().level(level)).unwrap_err().to_string();
    assert!(
        refused("debg")
            .starts_with(r#"the log level "debg" cannot be understood, because "debg" is not a level: "#)
    );
    assert!(refused("info,bowline_cache").contains(r#""bowline_cache" is not a level"#));
    assert!(refused("=info").contains(r#""=info" names no target"#));
    assert!(refused("").contains(r#""" is not a level"#));
    assert_eq!(
        "yaml".parse::<Format>().unwrap_err().to_string(),
        r#"there is no log format "yaml": use "text" or "json""#
    );
    assert_eq!("json".parse::<Format>().unwrap(), Format::Json);
}
