//! The files and lines of a new API, decided before anything is written.

use std::path::Path;

use super::builtin::{BuiltinKind, NoKind};
use super::error::CreateError;
use super::files::{ControllerFile, ControllerName, ControllerTest, KindFile};
use crate::arguments::CreateApi;
use crate::names;
use crate::project::Project;
use crate::source::{KindDeclaration, SourceTree, Wiring};
use crate::template;

/// What to write.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) files: Vec<PlannedFile>,
    pub(super) wiring: Wiring,
    /// Remarks for the user.
    pub(super) notes: Vec<String>,
}

/// A file to write.
#[derive(Debug)]
pub(super) struct PlannedFile {
    /// Path from the root of the project.
    pub(super) path: String,
    pub(super) text: String,
    /// Whether a file that is there is replaced.
    pub(super) replaces: bool,
}

/// The inputs of a plan.
pub(super) struct Planner<'a> {
    arguments: &'a CreateApi,
    project: &'a Project,
    tree: &'a SourceTree,
    kinds: Vec<KindDeclaration>,
    /// The API group of a custom kind.
    group: String,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        arguments: &'a CreateApi,
        project: &'a Project,
        tree: &'a SourceTree,
    ) -> Result<Self, CreateError> {
        let group = names::full_group(&arguments.group, &project.operator.domain)
            .map_err(|problem| CreateError::Group { group: arguments.group.clone(), problem })?;
        Ok(Self { arguments, project, tree, kinds: tree.kinds(), group })
    }

    pub(super) fn plan(&self) -> Result<Plan, CreateError> {
        if self.arguments.no_resource { self.controller() } else { self.kind() }
    }

    /// The plan for a kind, with a controller if it is its first version.
    fn kind(&self) -> Result<Plan, CreateError> {
        let CreateApi { version, kind, force, .. } = self.arguments;
        let own = self.declaration();
        let others: Vec<_> = self.of_this_kind().filter(|other| other.version != *version).collect();
        if let Some(own) = own
            && !force
        {
            let name = format!("{}.{}", kind.to_lowercase(), self.group);
            return Err(CreateError::Exists { name, version: version.clone(), file: own.file.clone() });
        }
        let module = match own {
            Some(own) => self.replaced_module(own)?,
            None => self.new_module(&others)?,
        };
        let path = format!("src/{module}.rs");
        self.check_other_versions(&others)?;
        self.check_plural(&others)?;
        let has_controller = if self.arguments.no_controller {
            false
        } else {
            let had_one = own.is_some() && self.tree.controllers().iter().any(|known| known.file == path);
            others.is_empty()
                || had_one
                || self.arguments.controller
                || self.arguments.controller_name.is_some()
        };
        let controller =
            if has_controller { Some(self.controller_name(&path, others.is_empty())?) } else { None };
        let is_stored = others.iter().all(|other| !other.is_stored);
        let operator = self.tree.operator_path();
        let file = KindFile {
            group: &self.group,
            version,
            kind,
            options: self.options(&others, is_stored),
            controller,
            // Alone, a version that is not stored cannot be installed.
            operator: if is_stored { Some("register") } else { operator.as_deref() },
        };
        let sample = format!("samples/{}_{version}_{}.yaml", self.arguments.group, kind.to_lowercase());
        if self.exists(&sample) && !force {
            return Err(CreateError::FileExists { file: sample, can_be_forced: true });
        }
        let files = vec![
            self.rust(path, &file.text(), own.is_some()),
            PlannedFile { path: sample, text: file.sample(), replaces: *force },
        ];
        Ok(Plan { files, wiring: self.tree.wire(&module), notes: self.notes() })
    }

    /// The plan for a controller of a kind that exists.
    fn controller(&self) -> Result<Plan, CreateError> {
        let CreateApi { kind, controller_name, .. } = self.arguments;
        let own = self.declaration();
        let builtin = if own.is_none() { Some(self.builtin()?) } else { None };
        let module = match controller_name {
            Some(name) => name.replace('-', "_"),
            None if own.is_some() => format!("{}_controller", names::snake_case(kind)),
            None => names::snake_case(kind),
        };
        let module = if self.is_free(&module) { module } else { format!("{module}_controller") };
        let path = format!("src/{module}.rs");
        let name = self.controller_name(&path, false)?;
        let is_replaced = self.exists(&path);
        if is_replaced {
            let is_own = self.tree.controllers().iter().filter(|known| known.file == path).count() == 1
                && self.kinds.iter().all(|known| known.file != path);
            if !is_own || !self.arguments.force {
                return Err(CreateError::FileExists { file: path, can_be_forced: is_own });
            }
        }
        let api_version = builtin
            .as_ref()
            .map_or_else(|| format!("{}/{}", self.group, self.arguments.version), BuiltinKind::api_version);
        let (type_path, test) = match (own, &builtin) {
            (Some(own), _) => (format!("{}::{kind}", own.module), self.start_test(own)),
            (None, Some(builtin)) => (builtin.path.clone(), ControllerTest::of(builtin)),
            (None, None) => return Err(self.unknown(Vec::new())),
        };
        if let Some(own) = own.filter(|own| !own.is_visible) {
            return Err(CreateError::Private { kind: kind.clone(), file: own.file.clone() });
        }
        let file = ControllerFile { kind, api_version: &api_version, path: &type_path, name, test };
        let files = vec![self.rust(path, &file.text(), is_replaced)];
        Ok(Plan { files, wiring: self.tree.wire(&module), notes: Vec::new() })
    }

    /// A file with Rust code, with the licence of the main file, as rustfmt formats it.
    fn rust(&self, path: String, text: &str, replaces: bool) -> PlannedFile {
        let license = self.tree.license_comment().map(|comment| format!("{}\n\n", comment.trim_end()));
        let text = license.unwrap_or_default().replace('\r', "") + text;
        PlannedFile { path, text: template::format(text, &self.project.root), replaces }
    }

    fn of_this_kind(&self) -> impl Iterator<Item = &KindDeclaration> {
        let kind = &self.arguments.kind;
        self.kinds.iter().filter(move |known| known.group == self.group && known.kind == *kind)
    }

    /// The API, if the project has it.
    fn declaration(&self) -> Option<&KindDeclaration> {
        self.of_this_kind().find(|known| known.version == self.arguments.version)
    }

    /// The module of an API that is written again.
    fn replaced_module(&self, own: &KindDeclaration) -> Result<String, CreateError> {
        let kinds = self.kinds.iter().filter(|known| known.file == own.file).count();
        let controllers = self.tree.controllers().iter().filter(|known| known.file == own.file).count();
        let module = own.file.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs"));
        module
            .filter(|module| kinds == 1 && controllers <= 1 && !module.contains('/') && !is_root(module))
            .map(str::to_owned)
            .ok_or_else(|| CreateError::Shared { kind: own.kind.clone(), file: own.file.clone() })
    }

    /// A module for a new API that has no file yet.
    fn new_module(&self, others: &[&KindDeclaration]) -> Result<String, CreateError> {
        let CreateApi { group, version, kind, .. } = self.arguments;
        let snake = names::snake_case(kind);
        let mut module = match others.first() {
            Some(other) => format!("{}_{version}", stem(other, &snake)),
            None => snake,
        };
        if !self.is_free(&module) {
            module.push_str("_kind");
        }
        let taken = format!("src/{module}.rs");
        // The same kind of another group has the shorter name.
        if self.kinds.iter().any(|known| known.file == taken && known.kind == *kind) {
            module = format!("{module}_{}", group.replace(['.', '-'], "_"));
        }
        for file in [format!("src/{module}.rs"), format!("src/{module}/mod.rs")] {
            if self.exists(&file) {
                return Err(CreateError::FileExists { file, can_be_forced: false });
            }
        }
        Ok(module)
    }

    /// Whether a module can have this name beside the others. Its file may exist.
    fn is_free(&self, module: &str) -> bool {
        !names::is_keyword(module)
            && !names::is_package_name(module)
            && !is_root(module)
            && !self.tree.has_inline_module(module)
    }

    fn check_other_versions(&self, others: &[&KindDeclaration]) -> Result<(), CreateError> {
        let Some(other) = others.first() else { return Ok(()) };
        let conflict = |what, value: &str| {
            Err(CreateError::OtherVersion {
                kind: other.kind.clone(),
                version: other.version.clone(),
                file: other.file.clone(),
                what,
                value: value.to_owned(),
            })
        };
        if self.arguments.cluster && other.is_namespaced {
            return conflict("scope", "namespaced");
        }
        if self.arguments.namespaced && !other.is_namespaced {
            return conflict("scope", "cluster");
        }
        let plural = plural_of(other);
        if self.arguments.plural.as_ref().is_some_and(|given| *given != plural) {
            return conflict("plural", &plural);
        }
        Ok(())
    }

    /// The name of a CRD is made of the plural and the group.
    fn check_plural(&self, others: &[&KindDeclaration]) -> Result<(), CreateError> {
        if !others.is_empty() {
            return Ok(());
        }
        let kind = &self.arguments.kind;
        let plural = self.arguments.plural.clone().unwrap_or_else(|| names::default_plural(kind));
        let strangers = self.kinds.iter().filter(|known| known.group == self.group && known.kind != *kind);
        match strangers.into_iter().find(|known| plural_of(known) == plural) {
            None => Ok(()),
            Some(known) => {
                Err(CreateError::Plural { plural, kind: known.kind.clone(), file: known.file.clone() })
            }
        }
    }

    /// The options of `#[kube]` that follow the kind.
    fn options(&self, others: &[&KindDeclaration], is_stored: bool) -> Vec<String> {
        let mut options = Vec::new();
        let is_namespaced = others.first().map_or(!self.arguments.cluster, |other| other.is_namespaced);
        if is_namespaced {
            options.push("namespaced".to_owned());
        }
        match (others.first(), &self.arguments.plural) {
            (Some(other), _) => options.extend(other.names.iter().cloned()),
            (None, Some(plural)) if *plural != names::default_plural(&self.arguments.kind) => {
                options.push(format!("plural = \"{plural}\""));
            }
            _ => {}
        }
        if !is_stored {
            options.push("storage = false".to_owned());
        }
        options
    }

    /// A name that no other controller has. Those in the file that is written again do not count.
    fn controller_name(&self, file: &str, is_new_kind: bool) -> Result<ControllerName, CreateError> {
        let controllers = self.tree.controllers();
        let is_replaced = self.arguments.force;
        let taken = |name: &str| {
            controllers.iter().find(|known| known.name == name && !(is_replaced && known.file == file))
        };
        let default = self.arguments.kind.to_lowercase();
        let name = self.arguments.controller_name.clone().unwrap_or_else(|| default.clone());
        let Some(known) = taken(&name) else {
            let is_default = name == default;
            return Ok(if is_default { ControllerName::Default } else { ControllerName::Own(name) });
        };
        let with_group = format!("{}-{default}", self.arguments.group.replace('.', "-"));
        let can_have_group = is_new_kind
            && self.arguments.controller_name.is_none()
            && names::controller(&with_group).is_ok()
            && taken(&with_group).is_none();
        if can_have_group {
            return Ok(ControllerName::Own(with_group));
        }
        let can_be_forced = known.file == file;
        Err(CreateError::ControllerExists { name, file: known.file.clone(), can_be_forced })
    }

    fn builtin(&self) -> Result<BuiltinKind, CreateError> {
        let CreateApi { group, version, kind, .. } = self.arguments;
        BuiltinKind::find(group, version, kind).map_err(|no_kind| match no_kind {
            NoKind::Unwatchable => CreateError::Unwatchable { kind: kind.clone() },
            NoKind::Unknown { elsewhere } => self.unknown(elsewhere),
        })
    }

    fn unknown(&self, mut elsewhere: Vec<String>) -> CreateError {
        let CreateApi { group, version, kind, .. } = self.arguments;
        let own = self.kinds.iter().filter(|known| known.kind == *kind);
        elsewhere.extend(own.map(|known| format!("{}/{}", known.group, known.version)));
        CreateError::Unknown {
            kind: kind.clone(),
            custom: format!("{}/{version}", self.group),
            builtin: format!("{group}/{version}"),
            elsewhere,
        }
    }

    /// The test of a controller of a custom kind, whose fields only the user knows.
    fn start_test(&self, own: &KindDeclaration) -> ControllerTest {
        if own.is_stored {
            let install = format!("env.install::<{}>().await?.start(register).await?", own.kind);
            return ControllerTest::Start(install);
        }
        // Alone, a version that is not stored cannot be installed.
        match self.tree.operator_path() {
            Some(operator) => ControllerTest::Start(format!("env.start({operator}).await?")),
            None => ControllerTest::None,
        }
    }

    fn notes(&self) -> Vec<String> {
        let CreateApi { group, version, kind, .. } = self.arguments;
        let builtin = BuiltinKind::find(group, version, kind).ok();
        let builtin = builtin.map(|builtin| {
            let api_version = builtin.api_version();
            format!(
                "{kind} of `{api_version}` is built in: use `--no-resource` for a controller of that kind"
            )
        });
        // The note about lines without a place names a root.
        let broken = self.tree.broken.iter().filter(|broken| !broken.is_root()).map(|broken| {
            format!(
                "{} is not valid Rust ({}), so it was not searched for kinds",
                broken.path, broken.problem
            )
        });
        builtin.into_iter().chain(broken).collect()
    }

    fn exists(&self, path: &str) -> bool {
        exists(&self.project.root, path)
    }
}

fn exists(root: &Path, path: &str) -> bool {
    root.join(path).symlink_metadata().is_ok()
}

/// Whether a module would be the root of a crate.
fn is_root(module: &str) -> bool {
    module == "main" || module == "lib"
}

fn plural_of(declaration: &KindDeclaration) -> String {
    declaration.plural.clone().unwrap_or_else(|| names::default_plural(&declaration.kind))
}

/// The name of the file of another version, without the version.
fn stem(other: &KindDeclaration, snake: &str) -> String {
    let name = other.file.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or(snake);
    let name = name.strip_suffix(&format!("_{}", other.version)).unwrap_or(name);
    if name.starts_with(snake) { name.to_owned() } else { snake.to_owned() }
}
