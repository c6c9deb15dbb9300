//! Errors of credentials without their secrets, and the credentials that are not sent over plain HTTP.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::internal::auth_error_text;
use kube::client::AuthError;
use kube::config::{AuthInfo, Config};

use crate::BoxError;

/// Most characters of a credential plugin's standard error that an error shows.
const MAX_STDERR: usize = 256;

/// Credentials that cannot be obtained. The message contains no environment, arguments or output of a credential
/// plugin: they may contain tokens.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The credential plugin ended with an error.
    #[error("credential plugin {program:?} failed ({status}): {stderr}")]
    Failed {
        /// The file name of the plugin.
        program: String,
        /// Its exit status.
        status: String,
        /// The start of its standard error, with control characters escaped.
        stderr: String,
    },
    /// The credential plugin cannot be started.
    #[error("cannot start credential plugin {program:?}: {source}; {hint}")]
    NotStarted {
        /// The file name of the plugin.
        program: String,
        /// How to install it: the `installHint` of the kubeconfig, where it has one.
        hint: String,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The credential plugin took too long and was ended.
    #[error("credential plugin {program:?} did not end within {limit:?}")]
    TimedOut {
        /// The file name of the plugin.
        program: String,
        /// The limit.
        limit: Duration,
    },
    /// The output of the credential plugin cannot be decoded.
    #[error("credential plugin {program:?} printed no valid ExecCredential")]
    Undecodable {
        /// The file name of the plugin.
        program: String,
    },
    /// The output of the credential plugin contains nothing to authenticate with.
    #[error("credential plugin {program:?} printed neither a token nor a client certificate")]
    Empty {
        /// The file name of the plugin.
        program: String,
    },
    /// The credentials in the configuration cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// Name of an `auth-provider` in errors; kube runs it.
#[derive(Clone, Debug)]
pub(super) struct CredentialSource(Arc<str>);

impl CredentialSource {
    pub(super) fn new(info: &AuthInfo) -> Self {
        let provider = info.auth_provider.as_ref();
        let path = provider.and_then(|provider| provider.config.get("cmd-path"));
        let program = Path::new(path.map_or("", String::as_str)).file_name().unwrap_or_default();
        Self(program.to_string_lossy().into())
    }

    /// An error of kube without what a plugin was given or has printed. Other errors stay as they are.
    pub(super) fn redact(&self, error: BoxError) -> BoxError {
        let error = match error.downcast::<AuthError>() {
            Ok(error) => return self.describe(*error).into(),
            Err(error) => error,
        };
        match error.downcast::<kube::Error>() {
            Ok(error) => match *error {
                kube::Error::Auth(error) => self.describe(error).into(),
                error => error.into(),
            },
            Err(error) => error,
        }
    }

    fn describe(&self, error: AuthError) -> CredentialsError {
        let program = self.0.to_string();
        match error {
            AuthError::AuthExecRun { cmd: _, out } => CredentialsError::Failed {
                program,
                status: out.status.to_string(),
                stderr: shortened(&out.stderr),
            },
            other => CredentialsError::Unusable(auth_error_text(&other)),
        }
    }
}

/// The start of a plugin's standard error, for an error.
pub(super) fn shortened(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let mut shown: String = text.chars().take(MAX_STDERR).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_STDERR).is_some() {
        shown.push('\u{2026}');
    }
    if shown.is_empty() { "it printed no error".to_owned() } else { shown }
}

/// The configuration without tokens, passwords and plugins, if its server uses plain HTTP, where they could be
/// intercepted. client-go does the same.
pub(super) fn without_exposed(config: &Config) -> Option<Config> {
    let AuthInfo { username, password, token, token_file, exec, auth_provider, .. } = &config.auth_info;
    let has_secrets = username.is_some()
        || password.is_some()
        || token.is_some()
        || token_file.is_some()
        || exec.is_some()
        || auth_provider.is_some();
    if config.cluster_url.scheme_str() != Some("http") || !has_secrets {
        return None;
    }
    tracing::warn!(
        server = super::authority(config),
        "credentials not sent: the server's address is plain http://; use https://"
    );
    let mut config = config.clone();
    config.auth_info = AuthInfo {
        username: None,
        password: None,
        token: None,
        token_file: None,
        exec: None,
        auth_provider: None,
        ..config.auth_info
    };
    Some(config)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ExitStatus, Output};

    use super::*;

    #[test]
    fn an_error_shows_the_program_its_status_and_the_start_of_its_stderr() {
        let info: AuthInfo = serde_json::from_value(serde_json::json!({
            "auth-provider": {"name": "gcp", "config": {"cmd-path": "/opt/bin/login", "cmd-args": "--password=hunter2"}},
        }))
        .expect("it is a user");
        let source = CredentialSource::new(&info);
        let stderr = format!("no\x1b[2J way {}", "x".repeat(300)).into_bytes();
        let out = Output { status: ExitStatus::from_raw(256), stdout: b"token-123".to_vec(), stderr };
        let cmd = "SECRET=s3cr3t \"/opt/bin/login\" \"--password=hunter2\"".to_owned();
        let error = AuthError::AuthExecRun { cmd, out: Box::new(out) };
        let shown = source.redact(kube::Error::Auth(error).into());
        let text = format!("{shown} {shown:?}");
        for secret in ["s3cr3t", "hunter2", "token-123", "\x1b"] {
            assert!(!text.contains(secret), "{text}");
        }
        let start = "credential plugin \"login\" failed (exit status: 1): no\\u{1b}[2J way xxx";
        assert!(shown.to_string().starts_with(start) && shown.to_string().ends_with("x\u{2026}"), "{shown}");
    }

    #[test]
    fn credentials_are_dropped_for_plain_http_only() {
        let mut config = Config::new("http://10.0.0.1:8080".parse().expect("it is a URL"));
        assert!(without_exposed(&config).is_none(), "there are none");
        config.auth_info.token = Some("t".to_owned().into());
        config.auth_info.impersonate = Some("alice".to_owned());
        let safe = without_exposed(&config).expect("they are dropped");
        assert!(safe.auth_info.token.is_none() && safe.auth_info.impersonate.is_some());
        config.cluster_url = "https://10.0.0.1:6443".parse().expect("it is a URL");
        assert!(without_exposed(&config).is_none());
    }
}
