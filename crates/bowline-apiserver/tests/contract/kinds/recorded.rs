//! A real server's answers in a file: read here, and written when they are recorded.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::Env;

/// The rows of a file.
pub(super) struct Recorded {
    place: PathBuf,
    rows: Vec<Value>,
}

impl Recorded {
    pub(super) fn read(folder: &str, file: &str) -> Self {
        let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/contract/kinds").join(folder);
        let place = place.join(file).with_extension("json");
        let text = std::fs::read_to_string(&place).expect("the file is there");
        let rows = serde_json::from_str(&text).expect("it is a list of rows");
        Self { place, rows }
    }

    /// Whether to record the server's behavior instead of comparing it. Tests that share a file must then not
    /// run at the same time.
    pub(super) fn is_recording() -> bool {
        std::env::var_os("BOWLINE_RECORD").is_some() && Env::is_real()
    }

    pub(super) fn rows(&mut self, wanted: impl Fn(&Value) -> bool) -> impl Iterator<Item = &mut Value> {
        let mut rows = self.rows.iter_mut().filter(move |row| wanted(row)).peekable();
        assert!(rows.peek().is_some(), "there is nothing to hold");
        rows
    }

    pub(super) fn write(&self) {
        if Self::is_recording() {
            let text = serde_json::to_string_pretty(&self.rows).expect("JSON can be written") + "\n";
            std::fs::write(&self.place, text).expect("the file can be written");
        }
    }
}

/// A row with the names that are this run's.
pub(super) fn fill(env: &Env, row: &Value) -> Value {
    let text = row.to_string().replace("<namespace>", &env.namespace).replace("<unique>", &env.unique("u"));
    serde_json::from_str(&text).expect("names need no escapes")
}

/// A text without the names that are this run's.
pub(super) fn neutral_text(env: &Env, text: &str) -> String {
    text.replace(&env.unique("u"), "<unique>").replace(&env.namespace, "<namespace>")
}

/// Removes an object after its test: ranges of addresses are small, and some names are shared.
pub(super) async fn remove(env: &Env, path: &str) {
    env.merge(path, json!({"metadata": {"finalizers": null}})).await;
    let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    let code = env.delete_with(path, options).await.code;
    assert!(matches!(code, 200 | 202), "{path}: {code}");
}
