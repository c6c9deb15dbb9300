//! The texts of the files that `bowline create api` writes.

use super::builtin::BuiltinKind;
use crate::names::{is_keyword, snake_case};
use crate::template::fill;

/// A file with a kind, and perhaps its controller.
#[derive(Debug)]
pub(super) struct KindFile<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
    /// Further options of `#[kube]`.
    pub(super) options: Vec<String>,
    pub(super) controller: Option<ControllerName>,
    /// Path of the function that a test starts. None if the file gets no test.
    pub(super) operator: Option<&'a str>,
}

/// The name of a controller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ControllerName {
    /// The kind in lower case.
    Default,
    Own(String),
}

impl ControllerName {
    fn call(&self) -> String {
        match self {
            Self::Default => String::new(),
            Self::Own(name) => format!(".named(\"{name}\")"),
        }
    }
}

impl KindFile<'_> {
    pub(super) fn text(&self) -> String {
        let Self { group, version, kind, .. } = self;
        let options = self.options.iter().fold(String::new(), |all, option| all + "    " + option + ",\n");
        let named = self.controller.as_ref().map(ControllerName::call);
        let (register, test) = if named.is_some() {
            let register = include_str!("../../templates/register_kind_and_controller.rs.tmpl");
            (register, include_str!("../../templates/test_status.rs.tmpl"))
        } else {
            let register = include_str!("../../templates/register_kind.rs.tmpl");
            (register, include_str!("../../templates/test_kind.rs.tmpl"))
        };
        let head = include_str!("../../templates/kind.rs.tmpl");
        let template = [head, register, if self.operator.is_some() { test } else { "" }].concat();
        fill(
            &template,
            &[
                ("group", group),
                ("version", version),
                ("kind", kind),
                ("api_version", &format!("{group}/{version}")),
                ("and_controller", if named.is_some() { " and its controller" } else { "" }),
                ("options", &options),
                ("named", &named.unwrap_or_default()),
                ("object", &variable(kind)),
                ("operator", self.operator.unwrap_or_default()),
            ],
        )
    }

    /// An object of the kind.
    pub(super) fn sample(&self) -> String {
        let Self { group, version, kind, .. } = self;
        fill(
            include_str!("../../templates/sample.yaml.tmpl"),
            &[
                ("api_version", &format!("{group}/{version}")),
                ("kind", kind),
                ("sample", &format!("{}-sample", kind.to_lowercase())),
            ],
        )
    }
}

/// A file with a controller of a kind that is declared elsewhere.
#[derive(Debug)]
pub(super) struct ControllerFile<'a> {
    pub(super) kind: &'a str,
    /// Group and version, as in `apiVersion`.
    pub(super) api_version: &'a str,
    /// Path of the type.
    pub(super) path: &'a str,
    pub(super) name: ControllerName,
    pub(super) test: ControllerTest,
}

/// The test of a controller.
#[derive(Debug)]
pub(super) enum ControllerTest {
    /// An object with these fields is created and reconciled.
    Object(&'static str),
    /// The environment is started with this expression.
    Start(String),
    None,
}

impl ControllerTest {
    pub(super) fn of(kind: &BuiltinKind) -> Self {
        match kind.example() {
            Some(fields) => Self::Object(fields),
            None => Self::Start("env.start(register).await?".to_owned()),
        }
    }
}

impl ControllerFile<'_> {
    pub(super) fn text(&self) -> String {
        let (test, example, start) = match &self.test {
            ControllerTest::Object(fields) => {
                let fields = fields.replace('\n', "\n        ");
                (include_str!("../../templates/test_builtin.rs.tmpl"), fields, "")
            }
            ControllerTest::Start(start) => {
                (include_str!("../../templates/test_start.rs.tmpl"), String::new(), start.as_str())
            }
            ControllerTest::None => ("", String::new(), ""),
        };
        let template = [include_str!("../../templates/controller.rs.tmpl"), test].concat();
        let of = format!("of the kind {} (`{}`)", self.kind, self.api_version);
        let title = match &self.name {
            ControllerName::Default => format!("A controller {of}"),
            ControllerName::Own(name) => format!("The controller `{name}` {of}"),
        };
        fill(
            &template,
            &[
                ("title", &title),
                ("path", self.path),
                ("kind", self.kind),
                ("named", &self.name.call()),
                ("object", &variable(self.kind)),
                ("example", &example),
                ("start", start),
            ],
        )
    }
}

/// The name of a variable for an object of a kind.
fn variable(kind: &str) -> String {
    let name = snake_case(kind);
    let is_taken = ["ctx", "reconcile", "register", "status", "update"].contains(&name.as_str());
    if is_taken || is_keyword(&name) { "object".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_never_a_keyword_or_another_variable() {
        for (kind, name) in [("ChessGame", "chess_game"), ("Type", "object"), ("Status", "object")] {
            assert_eq!(variable(kind), name);
        }
    }
}
