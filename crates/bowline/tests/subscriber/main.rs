//! A program with its own `tracing` subscriber and the ready-made flags. One test, because a process has one subscriber.

use std::sync::Mutex;

use bowline::args::Arguments;
use bowline::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: a, context: {cluster: a}}]
";

/// Messages of all events.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps all messages.
struct Own;

impl Subscriber for Own {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("bowline")
    }

    fn event(&self, event: &Event<'_>) {
        struct Message;
        impl Visit for Message {
            fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
                SAID.lock().expect("nobody panics").push(format!("{value:?}"));
            }
        }
        event.record(&mut Message);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_program_keeps_a_subscriber_of_its_own() -> Result<()> {
    tracing::subscriber::set_global_default(Own)?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG)?;
    let kubeconfig = kubeconfig.to_str().expect("text");
    let words = ["operator", "--kubeconfig", kubeconfig, "--log-level=off", "--health-probe-bind-address=0"];
    let arguments = Arguments::<()>::try_from_iter(words)?;
    let _manager = arguments.builder().await?.build()?;
    let said = SAID.lock().expect("nobody panics");
    assert!(said.iter().any(|said| said.starts_with("the program has logs of its own")), "{said:?}");
    Ok(())
}
