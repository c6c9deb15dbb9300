//! The user's kubeconfig: merges the entries of a server into it, and removes them again. The rest of the file stays.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::clock::Clock;
use bowline_apiserver::Kubeconfig;
use serde_json::{Map, Value, json};

/// Maximum size of a kubeconfig in bytes.
const MAX_SIZE: u64 = 16 * 1024 * 1024;

/// Attempts, and the pause between them, for a file that another program has locked.
const LOCK_ATTEMPTS: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Why a kubeconfig was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubeconfigError {
    #[error("cannot write the kubeconfig to {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot merge into {}: {problem}; the file is unchanged", path.display())]
    Content { path: PathBuf, problem: String },
    #[error(
        "cannot change {}: another program is changing it, or was killed when it did; then remove {}",
        path.display(),
        lock.display()
    )]
    Locked { path: PathBuf, lock: PathBuf },
}

/// A cluster, a user and a context, each of the same name, in the file of a user.
#[derive(Debug)]
pub(super) struct MergedKubeconfig {
    path: PathBuf,
    entries: Entries,
    /// Whether there was no such file before.
    is_created: bool,
    is_current: bool,
}

impl MergedKubeconfig {
    /// Adds the entries to the file. Entries of the same name, which a server on this port left behind, are replaced. The
    /// context becomes the current one if there is none. A symbolic link stays, and its target is changed.
    pub(super) async fn write(
        path: &Path,
        name: String,
        kubeconfig: &Kubeconfig,
    ) -> Result<Self, KubeconfigError> {
        let content = |problem| KubeconfigError::Content { path: path.to_owned(), problem };
        let entries = Entries::new(name, kubeconfig).map_err(content)?;
        let _lock = Lock::take(path).await?;
        let mut document = Document::read(path)?;
        let is_current = entries.merge(&mut document.content).map_err(content)?;
        document.write()?;
        Ok(Self { path: path.to_owned(), entries, is_created: document.metadata.is_none(), is_current })
    }

    /// The name of the context.
    pub(super) fn context(&self) -> &str {
        &self.entries.name
    }

    /// Whether the context was made the current one.
    pub(super) fn is_current(&self) -> bool {
        self.is_current
    }

    /// Removes from the file as it is now the entries that are still those of this server. A file that was created for
    /// them is removed if nothing else is in it.
    pub(super) async fn remove(self) -> Result<(), KubeconfigError> {
        let path = &self.path;
        let content = |problem| KubeconfigError::Content { path: path.clone(), problem };
        let _lock = Lock::take(path).await?;
        let mut document = Document::read(path)?;
        if document.metadata.is_none() {
            return Ok(());
        }
        let is_changed = self.entries.remove(&mut document.content).map_err(content)?;
        if self.is_created && is_empty(&document.content) {
            std::fs::remove_file(path).map_err(|source| KubeconfigError::File { path: path.clone(), source })
        } else if is_changed {
            document.write()
        } else {
            Ok(())
        }
    }
}

/// The content of a file, and its metadata. A missing file is empty.
struct Document {
    /// The file itself, not a symbolic link to it.
    target: PathBuf,
    metadata: Option<Metadata>,
    content: Map<String, Value>,
}

impl Document {
    fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let failed = |source| KubeconfigError::File { path: path.to_owned(), source };
        let refused = |problem: String| KubeconfigError::Content { path: path.to_owned(), problem };
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    return Err(refused("it is a symbolic link to a file that does not exist".to_owned()));
                }
                return Ok(Self { target: path.to_owned(), metadata: None, content: Map::new() });
            }
            Err(error) => return Err(failed(error)),
        };
        let metadata = std::fs::metadata(&target).map_err(failed)?;
        if !metadata.is_file() {
            return Err(refused("it is not a file".to_owned()));
        }
        if metadata.len() > MAX_SIZE {
            return Err(refused(format!("it has more than {MAX_SIZE} bytes")));
        }
        let mut text = String::new();
        let file = File::open(&target).map_err(failed)?;
        file.take(MAX_SIZE).read_to_string(&mut text).map_err(failed)?;
        let content = parse(&text).map_err(refused)?;
        Ok(Self { target, metadata: Some(metadata), content })
    }

    /// Replaces the file in one step. Its mode and owner stay; a new one can be read by its owner only.
    fn write(&self) -> Result<(), KubeconfigError> {
        let text = serde_saphyr::to_string(&self.content).ok();
        // The file may hold the only copy of a user's credentials.
        let text = text.filter(|text| parse(text).as_ref() == Ok(&self.content));
        let Some(text) = text else {
            let problem = "its content cannot be written as YAML".to_owned();
            return Err(KubeconfigError::Content { path: self.target.clone(), problem });
        };
        self.replace(&text).map_err(|source| KubeconfigError::File { path: self.target.clone(), source })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = self.target.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let mut temporary = tempfile::Builder::new().prefix(".bowline-").tempfile_in(directory)?;
        temporary.write_all(text.as_bytes())?;
        if let Some(metadata) = &self.metadata {
            #[cfg(unix)]
            keep_owner(temporary.as_file(), metadata)?;
            temporary.as_file().set_permissions(metadata.permissions())?;
        }
        temporary.as_file().sync_all()?;
        let replaced = match self.metadata {
            Some(_) => temporary.persist(&self.target),
            None => temporary.persist_noclobber(&self.target),
        };
        replaced.map(drop).map_err(|error| error.error)
    }
}

#[cfg(unix)]
fn keep_owner(file: &File, metadata: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};

    let own = file.metadata()?;
    if (own.uid(), own.gid()) == (metadata.uid(), metadata.gid()) {
        return Ok(());
    }
    fchown(file, Some(metadata.uid()), Some(metadata.gid()))
}

/// The content of a kubeconfig. An error quotes nothing of it: it may hold secrets.
fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        let place =
            error.location().map(|place| format!(", at line {} column {}", place.line(), place.column()));
        format!("it is not valid YAML{}", place.unwrap_or_default())
    })?;
    let content = match value {
        Value::Object(content) => content,
        Value::Null => Map::new(),
        _ => return Err("it is not a kubeconfig".to_owned()),
    };
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        if content.get(field).is_some_and(|value| value != expected && *value != "") {
            return Err(format!("it is not a kubeconfig: `{field}` is not {expected:?}"));
        }
    }
    Ok(content)
}

/// The entries of one server.
#[derive(Debug)]
struct Entries {
    name: String,
    cluster: Value,
    user: Value,
}

impl Entries {
    fn new(name: String, kubeconfig: &Kubeconfig) -> Result<Self, String> {
        let own = Value::Object(parse(&kubeconfig.to_yaml())?);
        let entry =
            |pointer: &str| own.pointer(pointer).cloned().ok_or_else(|| format!("there is no {pointer}"));
        Ok(Self { name, cluster: entry("/clusters/0/cluster")?, user: entry("/users/0/user")? })
    }

    /// Adds them. Returns whether the context was made the current one.
    fn merge(&self, content: &mut Map<String, Value>) -> Result<bool, String> {
        let Self { name, cluster, user } = self;
        for (field, value) in [
            ("clusters", json!({ "name": name, "cluster": cluster })),
            ("users", json!({ "name": name, "user": user })),
            ("contexts", json!({ "name": name, "context": { "cluster": name, "user": name } })),
        ] {
            let list = list(content, field)?;
            list.retain(|entry| !is_named(entry, name));
            list.push(value);
        }
        for (field, value) in [("apiVersion", "v1"), ("kind", "Config")] {
            content.insert(field.to_owned(), value.into());
        }
        let current = content.entry(CURRENT).or_insert(Value::Null);
        let has_current = current.as_str().is_some_and(|current| !current.is_empty());
        if !has_current {
            *current = name.as_str().into();
        }
        Ok(!has_current)
    }

    /// Removes those that are still there. Returns whether there were any. Each server has an authority and certificates
    /// of its own, so another one's entries of the same name are recognised, and stay.
    fn remove(&self, content: &mut Map<String, Value>) -> Result<bool, String> {
        let Self { name, cluster, user } = self;
        let is_own = |entry: &Value, pointer: &str, expected: &Value| {
            let key = pointer.rsplit('/').next().unwrap_or_default();
            is_named(entry, name)
                && entry.pointer(pointer).is_some()
                && entry.pointer(pointer) == expected.get(key)
        };
        let is_own_cluster = |entry: &Value| is_own(entry, "/cluster/certificate-authority-data", cluster);
        let is_own_user = |entry: &Value| is_own(entry, "/user/client-certificate-data", user);
        let clusters = removed(list(content, "clusters")?, is_own_cluster);
        let users = removed(list(content, "users")?, is_own_user);
        if !clusters {
            return Ok(users);
        }
        removed(list(content, "contexts")?, |entry| {
            is_named(entry, name) && entry.pointer("/context/cluster").is_some_and(|cluster| cluster == name)
        });
        if content.get(CURRENT).is_some_and(|current| current == name) {
            content.insert(CURRENT.to_owned(), "".into());
        }
        Ok(true)
    }
}

const CURRENT: &str = "current-context";

fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").is_some_and(|it| it == name)
}

fn list<'a>(content: &'a mut Map<String, Value>, field: &str) -> Result<&'a mut Vec<Value>, String> {
    let value = content.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut().ok_or_else(|| format!("it is not a kubeconfig: `{field}` is not a list"))
}

/// Removes entries. Returns whether there were any.
fn removed(list: &mut Vec<Value>, is_own: impl Fn(&Value) -> bool) -> bool {
    let before = list.len();
    list.retain(|entry| !is_own(entry));
    list.len() != before
}

/// Whether no cluster, user or context is left.
fn is_empty(content: &Map<String, Value>) -> bool {
    content.iter().all(|(field, value)| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || field == "apiVersion" || field == "kind",
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    })
}

/// The lock that kubectl takes for the same purpose: a file beside the kubeconfig.
struct Lock(PathBuf);

impl Lock {
    async fn take(path: &Path) -> Result<Self, KubeconfigError> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        for attempt in 1.. {
            match File::options().write(true).create_new(true).open(&lock) {
                Ok(_) => break,
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(KubeconfigError::File { path: path.to_owned(), source: error });
                }
                Err(_) if attempt == LOCK_ATTEMPTS => {
                    return Err(KubeconfigError::Locked { path: path.to_owned(), lock });
                }
                Err(_) => Clock::real().sleep(LOCK_PAUSE).await,
            }
        }
        Ok(Self(lock))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &str = "apiVersion: v1\nkind: Config\npreferences: {colors: true}\ncurrent-context: prod\nx-unknown: [1, yes]\n\
                        clusters:\n- name: prod\n  cluster: {server: https://prod, x: {y: 'no'}}\n\
                        users:\n- name: prod\n  user:\n    token: '0123'\n    exec: {command: aws, args: ['on', \"a\\nb\", 'null', '1e3', '~']}\n\
                        contexts:\n- name: prod\n  context: {cluster: prod, user: prod, namespace: 'yes'}\n";

    fn entries(id: &str) -> Entries {
        Entries {
            name: "bowline-6443".to_owned(),
            cluster: json!({ "server": "https://127.0.0.1:6443", "certificate-authority-data": format!("ca-{id}") }),
            user: json!({ "client-certificate-data": format!("cert-{id}"), "client-key-data": "key" }),
        }
    }

    #[test]
    fn other_content_is_the_same_after_a_merge_and_a_removal() {
        let before = parse(SOME).unwrap();
        let mut content = before.clone();
        assert_eq!(entries("a").merge(&mut content), Ok(false));
        assert_eq!(content["current-context"], "prod");
        assert_eq!(content["contexts"][1]["context"]["cluster"], "bowline-6443");
        // Through the text, as in a file.
        let mut content = parse(&serde_saphyr::to_string(&content).unwrap()).unwrap();
        assert_eq!(entries("a").remove(&mut content), Ok(true));
        assert_eq!(content, before);
        assert_eq!(entries("a").remove(&mut content), Ok(false));
    }

    #[test]
    fn a_file_without_a_current_context_gets_one_and_loses_it_again() {
        let mut content = Map::new();
        assert_eq!(entries("a").merge(&mut content), Ok(true));
        assert_eq!(content["current-context"], "bowline-6443");
        assert!(!is_empty(&content));
        assert_eq!(entries("a").remove(&mut content), Ok(true));
        assert!(is_empty(&content), "{content:?}");
    }

    #[test]
    fn entries_of_another_server_on_the_port_are_replaced_at_the_start_and_stay_at_the_end() {
        let mut content = parse(SOME).unwrap();
        entries("a").merge(&mut content).unwrap();
        entries("b").merge(&mut content).unwrap();
        assert_eq!(content["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(content["clusters"][1]["cluster"]["certificate-authority-data"], "ca-b");
        assert_eq!(entries("a").remove(&mut content), Ok(false));
        assert_eq!(content["contexts"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_context_that_kubectl_changed_is_still_removed() {
        let mut content = parse(SOME).unwrap();
        entries("a").merge(&mut content).unwrap();
        content["contexts"][1]["context"]["namespace"] = "kube-system".into();
        content["current-context"] = "bowline-6443".into();
        assert_eq!(entries("a").remove(&mut content), Ok(true));
        assert_eq!(content["contexts"].as_array().unwrap().len(), 1);
        assert_eq!(content["current-context"], "");
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_without_a_quote() {
        for (text, expected) in [
            ("token: secret\n\tx: [", "it is not valid YAML, at line 1 column 8"),
            ("secret", "it is not a kubeconfig"),
            ("kind: Secret", "it is not a kubeconfig: `kind` is not \"Config\""),
            ("apiVersion: v2", "it is not a kubeconfig: `apiVersion` is not \"v1\""),
            ("a: 1\n---\nb: 2", "it is not valid YAML, at line 3 column 1"),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
        let mut content = parse("clusters: secret").unwrap();
        let problem = entries("a").merge(&mut content).unwrap_err();
        assert_eq!(problem, "it is not a kubeconfig: `clusters` is not a list");
    }
}
