//! Where the configuration of a cluster is looked for, and which part of it is meant.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::TransportError;

/// Looks for the configuration that a program is meant to use, as Go's tools do. The first of these that is there is it:
/// 1. the file that [`kubeconfig`](Self::kubeconfig) names,
/// 2. the files in `$KUBECONFIG`, of which some may be missing,
/// 3. that of the pod it runs in, unless a [`context`](Self::context) is asked for, which only files have,
/// 4. `~/.kube/config`,
/// 5. the address of a [`server`](Self::server) alone, without credentials.
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
}

impl ConfigSearch {
    /// Wherever it is, in its current context.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file that it is in. Default: it is looked for.
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(path.into());
        self
    }

    /// The context of the kubeconfig. Default: its current one.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }

    /// The server's address, whatever the configuration says. Default: what it says.
    pub fn server(mut self, address: Uri) -> Self {
        self.server = Some(address);
        self
    }

    /// Reads it. Nothing is sent.
    ///
    /// # Errors
    /// [`TransportError`] when the first that is there cannot be used, or none is.
    pub async fn find(&self) -> Result<Config, TransportError> {
        self.find_in(&Surroundings::of_process()).await
    }

    async fn find_in(&self, surroundings: &Surroundings) -> Result<Config, TransportError> {
        let place = self.place(surroundings);
        let kubeconfig = match &place {
            Place::File(path) => Some(Kubeconfig::read_from(path)?),
            Place::Files(paths) => read_those_there(paths)?,
            Place::Pod => return Ok(self.at_server(Config::incluster()?)),
            Place::Home(path) => read_those_there(std::slice::from_ref(path))?,
            Place::Nowhere => None,
        };
        let none = TransportError::NoConfiguration { context: self.context.clone() };
        match (kubeconfig, &self.server) {
            (Some(kubeconfig), _) => Ok(self.at_server(self.select(kubeconfig).await?)),
            (None, Some(server)) if self.context.is_none() => Ok(Config::new(server.clone())),
            (None, _) => match place {
                // Somebody named files, so that it is worth to say which.
                Place::Files(paths) => Err(Kubeconfig::read_from(&paths[0]).err().map_or(none, Into::into)),
                _ => Err(none),
            },
        }
    }

    fn place(&self, surroundings: &Surroundings) -> Place {
        let files = || env::split_paths(&surroundings.kubeconfig).filter(|path| !path.as_os_str().is_empty());
        match (&self.kubeconfig, &surroundings.home) {
            (Some(path), _) => Place::File(path.clone()),
            _ if files().next().is_some() => Place::Files(files().collect()),
            _ if surroundings.is_pod && self.context.is_none() => Place::Pod,
            (None, Some(home)) => Place::Home(home.join(".kube").join("config")),
            (None, None) => Place::Nowhere,
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

/// What a process has around it that says where a cluster is.
struct Surroundings {
    /// Paths, as in `$PATH`.
    kubeconfig: OsString,
    is_pod: bool,
    home: Option<PathBuf>,
}

impl Surroundings {
    fn of_process() -> Self {
        let variable = |name| env::var_os(name).unwrap_or_default();
        Self {
            kubeconfig: variable("KUBECONFIG"),
            is_pod: !variable("KUBERNETES_SERVICE_HOST").is_empty(),
            home: env::home_dir(),
        }
    }
}

/// Where the configuration is.
#[derive(Debug, PartialEq)]
enum Place {
    File(PathBuf),
    Files(Vec<PathBuf>),
    Pod,
    Home(PathBuf),
    Nowhere,
}

/// All files that there are, as one; none where there are none.
fn read_those_there(paths: &[impl AsRef<Path>]) -> Result<Option<Kubeconfig>, KubeconfigError> {
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

    fn surroundings(kubeconfig: &str, is_pod: bool, home: Option<&Path>) -> Surroundings {
        Surroundings { kubeconfig: kubeconfig.into(), is_pod, home: home.map(Path::to_owned) }
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

    /// A file with a context of that name.
    fn write(directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(&path, kubeconfig(name.rsplit('/').next().expect("a name")))
            .expect("it can be written");
        path
    }

    #[test]
    fn the_flag_comes_first_then_the_variable_then_the_pod_then_home() {
        let home = Some(Path::new("/home/a"));
        let flag = ConfigSearch::new().kubeconfig("/flag");
        let all = surroundings("/b::/c", true, home);
        assert_eq!(flag.place(&all), Place::File("/flag".into()));
        let usual = ConfigSearch::new();
        assert_eq!(usual.place(&all), Place::Files(vec!["/b".into(), "/c".into()]));
        assert_eq!(usual.place(&surroundings("", true, home)), Place::Pod);
        assert_eq!(usual.place(&surroundings("", false, home)), Place::Home("/home/a/.kube/config".into()));
        assert_eq!(usual.place(&surroundings("", false, None)), Place::Nowhere);
        let context = ConfigSearch::new().context("a");
        assert_eq!(
            context.place(&surroundings("", true, home)),
            Place::Home("/home/a/.kube/config".into()),
            "a pod has no contexts"
        );
    }

    #[tokio::test]
    async fn what_is_there_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (write(directory.path(), "one"), write(directory.path(), "two"));
        write(directory.path(), ".kube/config");
        let variable = env::join_paths([&directory.path().join("missing"), &one, &two]).unwrap();
        let around = surroundings(variable.to_str().unwrap(), false, Some(directory.path()));

        let found = ConfigSearch::new().find_in(&around).await.unwrap();
        assert_eq!(found.cluster_url, "https://one:6443/", "the first that there is says which is current");
        let found = ConfigSearch::new().context("two").find_in(&around).await.unwrap();
        assert_eq!((found.cluster_url.host(), &*found.default_namespace), (Some("two"), "of-two"));
        let found = ConfigSearch::new().kubeconfig(two).find_in(&around).await.unwrap();
        assert_eq!(found.cluster_url.host(), Some("two"));
        let found =
            ConfigSearch::new().find_in(&surroundings("", false, Some(directory.path()))).await.unwrap();
        assert_eq!(found.cluster_url.host(), Some("config"));
    }

    #[tokio::test]
    async fn a_server_that_is_named_is_the_one_that_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "one");
        let nowhere = surroundings("", false, Some(&directory.path().join("nobody")));
        let server = ConfigSearch::new().server(Uri::from_static("http://127.0.0.1:8080"));

        let found = server.clone().kubeconfig(one).find_in(&nowhere).await.unwrap();
        assert_eq!((found.cluster_url.host(), &*found.default_namespace), (Some("127.0.0.1"), "of-one"));
        let found = server.find_in(&nowhere).await.unwrap();
        assert_eq!(found.cluster_url.port_u16(), Some(8080), "nothing else is needed");
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "one");
        let nowhere = surroundings("", false, Some(&directory.path().join("nobody")));
        let told_in = async |search: ConfigSearch, around: &Surroundings| {
            let error = crate::Error::from(search.find_in(around).await.unwrap_err());
            error.to_string().replace(directory.path().to_str().unwrap(), "DIR")
        };
        let told = async |search: ConfigSearch| told_in(search, &nowhere).await;
        let lost = directory.path().join("lost");
        assert_eq!(
            told_in(ConfigSearch::new(), &surroundings(lost.to_str().unwrap(), true, None)).await,
            "cannot use the kubeconfig; see --kubeconfig and $KUBECONFIG: failed to read kubeconfig from '\"DIR/lost\"': \
             No such file or directory (os error 2)"
        );
        assert_eq!(
            told(ConfigSearch::new()).await,
            "there is no configuration of a cluster: set --kubeconfig or $KUBECONFIG, or write ~/.kube/config"
        );
        assert_eq!(
            told(ConfigSearch::new().kubeconfig(directory.path().join("missing"))).await,
            "cannot use the kubeconfig; see --kubeconfig and $KUBECONFIG: failed to read kubeconfig from \
             '\"DIR/missing\"': No such file or directory (os error 2)"
        );
        assert_eq!(
            told(ConfigSearch::new().kubeconfig(one).context("two")).await,
            r#"the kubeconfig has no context "two"; it has: one"#
        );
        assert_eq!(
            told(ConfigSearch::new().context("two").server(Uri::from_static("http://a"))).await,
            r#"there is no kubeconfig that could have a context "two": set --kubeconfig or $KUBECONFIG, or write ~/.kube/config"#
        );
    }
}
