//! Finds the configuration of a cluster.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::TransportError;

/// Finds the configuration of a program, like Go's tools. The first existing one counts:
/// 1. the file of [`kubeconfig`](Self::kubeconfig),
/// 2. the files in `$KUBECONFIG`; some of them may be missing,
/// 3. that of the pod, unless a [`context`](Self::context) is set, which only files have,
/// 4. `~/.kube/config`,
/// 5. only the address of a [`server`](Self::server), without credentials.
///
/// ```no_run
/// use bowline_runtime::transport::ConfigSearch;
///
/// # async fn f() -> Result<(), bowline_runtime::transport::TransportError> {
/// let config = ConfigSearch::new().context("staging").find().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is looked for until `find`"]
pub struct ConfigSearch {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    server: Option<Uri>,
    skips_pod: bool,
}

/// Origin of the configuration that a [`ConfigSearch`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigOrigin {
    /// The context of this name in a kubeconfig.
    Context(String),
    /// The service account of the pod.
    Pod,
    /// The address of the [server](ConfigSearch::server) alone.
    Server,
}

impl ConfigSearch {
    /// A search with the current context.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kubeconfig file. Default: the usual places.
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(path.into());
        self
    }

    /// The context in the kubeconfig. Default: the current one.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }

    /// The server's address. Default: that of the configuration.
    pub fn server(mut self, address: Uri) -> Self {
        self.server = Some(address);
        self
    }

    /// Leaves out the configuration of the pod. Default: it counts.
    pub fn without_pod(mut self) -> Self {
        self.skips_pod = true;
        self
    }

    /// Reads the configuration. Sends nothing.
    ///
    /// # Errors
    /// [`TransportError`] if the first existing configuration cannot be used, or if none exists.
    pub async fn find(&self) -> Result<Config, TransportError> {
        Ok(self.find_with_origin().await?.0)
    }

    /// As [`find`](Self::find), with the place where the configuration was found.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub async fn find_with_origin(&self) -> Result<(Config, ConfigOrigin), TransportError> {
        self.find_in(&Environment::of_process()).await
    }

    async fn find_in(&self, environment: &Environment) -> Result<(Config, ConfigOrigin), TransportError> {
        let location = self.location(environment);
        let kubeconfig = match &location {
            Location::File(path) => Some(Kubeconfig::read_from(path)?),
            Location::Files(paths) => read_existing(paths)?,
            Location::Pod => return Ok((self.at_server(Config::incluster()?), ConfigOrigin::Pod)),
            Location::Home(path) => read_existing(std::slice::from_ref(path))?,
            Location::Nowhere => None,
        };
        let none = TransportError::NoConfiguration { context: self.context.clone() };
        match (kubeconfig, &self.server) {
            (Some(kubeconfig), _) => {
                let context = self.context.clone().or_else(|| kubeconfig.current_context.clone());
                let origin = ConfigOrigin::Context(context.unwrap_or_default());
                Ok((self.at_server(self.select(kubeconfig).await?), origin))
            }
            (None, Some(server)) if self.context.is_none() => {
                Ok((Config::new(server.clone()), ConfigOrigin::Server))
            }
            (None, _) => match location {
                // The user named these files: report which one is missing.
                Location::Files(paths) => {
                    Err(Kubeconfig::read_from(&paths[0]).err().map_or(none, Into::into))
                }
                _ => Err(none),
            },
        }
    }

    fn location(&self, environment: &Environment) -> Location {
        let files = || env::split_paths(&environment.kubeconfig).filter(|path| !path.as_os_str().is_empty());
        match (&self.kubeconfig, &environment.home) {
            (Some(path), _) => Location::File(path.clone()),
            _ if files().next().is_some() => Location::Files(files().collect()),
            _ if environment.is_pod && self.context.is_none() && !self.skips_pod => Location::Pod,
            (None, Some(home)) => Location::Home(home.join(".kube").join("config")),
            (None, None) => Location::Nowhere,
        }
    }

    async fn select(&self, kubeconfig: Kubeconfig) -> Result<Config, TransportError> {
        if let Some(name) = &self.context
            && kubeconfig.contexts.iter().all(|context| context.name != *name)
        {
            let known = kubeconfig.contexts.into_iter().map(|context| context.name).collect();
            return Err(TransportError::UnknownContext { name: name.clone(), known });
        }
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
    }

    fn at_server(&self, mut config: Config) -> Config {
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
        }
        config
    }
}

/// The environment of a process.
struct Environment {
    /// Paths, separated as in `$PATH`.
    kubeconfig: OsString,
    is_pod: bool,
    home: Option<PathBuf>,
}

impl Environment {
    fn of_process() -> Self {
        let variable = |name| env::var_os(name).unwrap_or_default();
        Self {
            kubeconfig: variable("KUBECONFIG"),
            is_pod: !variable("KUBERNETES_SERVICE_HOST").is_empty(),
            home: env::home_dir(),
        }
    }
}

/// Location of a configuration.
#[derive(Debug, PartialEq)]
enum Location {
    File(PathBuf),
    Files(Vec<PathBuf>),
    Pod,
    Home(PathBuf),
    Nowhere,
}

/// Merges all existing files; `None` if none exists.
fn read_existing(paths: &[impl AsRef<Path>]) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut merged = None::<Kubeconfig>;
    for path in paths {
        match Kubeconfig::read_from(path) {
            Ok(next) => merged = Some(merged.unwrap_or_default().merge(next)?),
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(kubeconfig: &str, is_pod: bool, home: Option<&Path>) -> Environment {
        Environment { kubeconfig: kubeconfig.into(), is_pod, home: home.map(Path::to_owned) }
    }

    fn kubeconfig(current: &str) -> String {
        let named = |name: &str| {
            format!(
                "clusters: [{{name: {name}, cluster: {{server: 'https://{name}:6443'}}}}]\n\
                 contexts: [{{name: {name}, context: {{cluster: {name}, namespace: of-{name}}}}}]\n"
            )
        };
        format!("apiVersion: v1\nkind: Config\ncurrent-context: {current}\n{}", named(current))
    }

    /// Writes a file with a context of that name.
    fn write(directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(&path, kubeconfig(name.rsplit('/').next().expect("a name")))
            .expect("it can be written");
        path
    }

    #[test]
    fn the_flag_precedes_the_variable_the_pod_and_home() {
        let home = Some(Path::new("/home/a"));
        let flag = ConfigSearch::new().kubeconfig("/flag");
        let all = environment("/b::/c", true, home);
        assert_eq!(flag.location(&all), Location::File("/flag".into()));
        let usual = ConfigSearch::new();
        assert_eq!(usual.location(&all), Location::Files(vec!["/b".into(), "/c".into()]));
        assert_eq!(usual.location(&environment("", true, home)), Location::Pod);
        assert_eq!(
            usual.location(&environment("", false, home)),
            Location::Home("/home/a/.kube/config".into())
        );
        assert_eq!(usual.location(&environment("", false, None)), Location::Nowhere);
        let context = ConfigSearch::new().context("a");
        assert_eq!(
            context.location(&environment("", true, home)),
            Location::Home("/home/a/.kube/config".into()),
            "a pod has no contexts"
        );
        assert_eq!(
            usual.without_pod().location(&environment("", true, home)),
            Location::Home("/home/a/.kube/config".into())
        );
    }

    #[tokio::test]
    async fn existing_files_are_merged() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (write(directory.path(), "one"), write(directory.path(), "two"));
        write(directory.path(), ".kube/config");
        let variable = env::join_paths([&directory.path().join("missing"), &one, &two]).unwrap();
        let around = environment(variable.to_str().unwrap(), false, Some(directory.path()));

        let (found, origin) = ConfigSearch::new().find_in(&around).await.unwrap();
        assert_eq!(
            found.cluster_url, "https://one:6443/",
            "the first existing file sets the current context"
        );
        assert_eq!(origin, ConfigOrigin::Context("one".to_owned()));
        let (found, origin) = ConfigSearch::new().context("two").find_in(&around).await.unwrap();
        assert_eq!((found.cluster_url.host(), &*found.default_namespace), (Some("two"), "of-two"));
        assert_eq!(origin, ConfigOrigin::Context("two".to_owned()));
        let (found, _) = ConfigSearch::new().kubeconfig(two).find_in(&around).await.unwrap();
        assert_eq!(found.cluster_url.host(), Some("two"));
        let (found, _) =
            ConfigSearch::new().find_in(&environment("", false, Some(directory.path()))).await.unwrap();
        assert_eq!(found.cluster_url.host(), Some("config"));
    }

    #[tokio::test]
    async fn a_named_server_replaces_that_of_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "one");
        let nowhere = environment("", false, Some(&directory.path().join("missing-home")));
        let server = ConfigSearch::new().server(Uri::from_static("http://127.0.0.1:8080"));

        let (found, _) = server.clone().kubeconfig(one).find_in(&nowhere).await.unwrap();
        assert_eq!((found.cluster_url.host(), &*found.default_namespace), (Some("127.0.0.1"), "of-one"));
        let (found, origin) = server.find_in(&nowhere).await.unwrap();
        assert_eq!(origin, ConfigOrigin::Server);
        assert_eq!(found.cluster_url.port_u16(), Some(8080), "nothing else is needed");
    }

    #[tokio::test]
    async fn missing_files_and_contexts_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "one");
        let nowhere = environment("", false, Some(&directory.path().join("missing-home")));
        let error_in = async |search: ConfigSearch, around: &Environment| {
            let error = crate::Error::from(search.find_in(around).await.unwrap_err());
            error.to_string().replace(directory.path().to_str().unwrap(), "DIR")
        };
        let error_of = async |search: ConfigSearch| error_in(search, &nowhere).await;
        let lost = directory.path().join("lost");
        assert_eq!(
            error_in(ConfigSearch::new(), &environment(lost.to_str().unwrap(), true, None)).await,
            "cannot use the kubeconfig; see --kubeconfig and $KUBECONFIG: failed to read kubeconfig from '\"DIR/lost\"': \
             No such file or directory (os error 2)"
        );
        assert_eq!(
            error_of(ConfigSearch::new()).await,
            "there is no configuration of a cluster: set --kubeconfig or $KUBECONFIG, or write ~/.kube/config"
        );
        assert_eq!(
            error_of(ConfigSearch::new().kubeconfig(directory.path().join("missing"))).await,
            "cannot use the kubeconfig; see --kubeconfig and $KUBECONFIG: failed to read kubeconfig from \
             '\"DIR/missing\"': No such file or directory (os error 2)"
        );
        assert_eq!(
            error_of(ConfigSearch::new().kubeconfig(one).context("two")).await,
            r#"the kubeconfig has no context "two"; it has: one"#
        );
        assert_eq!(
            error_of(ConfigSearch::new().context("two").server(Uri::from_static("http://a"))).await,
            r#"there is no kubeconfig that could have a context "two": set --kubeconfig or $KUBECONFIG, or write ~/.kube/config"#
        );
    }
}
