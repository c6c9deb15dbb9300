//! One run of a credential plugin: its process, and the credential that it prints.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::Clock;
use http::HeaderValue;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::config::{ExecConfig, ExecInteractiveMode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::Credential;
use crate::BoxError;
use crate::transport::credentials::{CredentialsError, shortened};

/// Maximum bytes of the output and of the standard error.
const MAX_OUTPUT: u64 = 1 << 20;

/// Maximum time to read the pipes after the plugin has ended.
const PIPE_DELAY: Duration = Duration::from_millis(500);

/// The file name of the plugin.
pub(super) fn program(exec: &ExecConfig) -> String {
    let path = exec.command.as_deref().unwrap_or_default();
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs the plugin. Dropping the future ends its process.
pub(super) async fn run(exec: &ExecConfig, clock: &Clock) -> Result<Credential, CredentialsError> {
    let program = program(exec);
    let mut command = command(exec, &program)?;
    let mut child = command.spawn().map_err(|source| CredentialsError::NotStarted {
        program: program.clone(),
        hint: exec.install_hint.clone().unwrap_or_else(|| "is it installed?".to_owned()),
        source: Arc::new(source),
    })?;
    // Standard error was inherited by the terminal.
    let is_shown = child.stderr.is_none();
    let finished = finish(&mut child, clock).await;
    let (output, errors, status) = finished.map_err(|source| CredentialsError::NotStarted {
        program: program.clone(),
        hint: "its output cannot be read".to_owned(),
        source: Arc::new(source),
    })?;
    if !status.success() {
        let stderr = if is_shown { "see its output above".to_owned() } else { shortened(&errors) };
        let status = status.to_string();
        return Err(CredentialsError::Failed { program, status, stderr });
    }
    let Ok(output) = serde_saphyr::from_slice::<ExecCredential>(&output) else {
        return Err(CredentialsError::Undecodable { program });
    };
    output.status.decode(program)
}

fn command(exec: &ExecConfig, program: &str) -> Result<Command, CredentialsError> {
    let unusable =
        |problem: &str| CredentialsError::Unusable(format!("credential plugin {program:?} {problem}"));
    let path = exec.command.as_ref().ok_or_else(|| unusable("has no `command` in the kubeconfig"))?;
    let has_terminal = io::stdin().is_terminal();
    let is_interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !has_terminal => {
            return Err(unusable("needs a terminal (`interactiveMode: Always`), and standard input is none"));
        }
        _ => has_terminal,
    };
    let mut spec = json!({ "interactive": is_interactive });
    if exec.provide_cluster_info {
        let cluster =
            exec.cluster.as_ref().ok_or_else(|| unusable("asks for a cluster that is not known"))?;
        spec["cluster"] = json!(cluster);
    }
    let mut info = json!({ "kind": "ExecCredential", "spec": spec });
    if let Some(version) = &exec.api_version {
        info["apiVersion"] = json!(version);
    }
    let mut command = Command::new(path);
    command.args(exec.args.iter().flatten());
    let variables = exec.env.iter().flatten();
    command.envs(variables.filter_map(|variable| Some((variable.get("name")?, variable.get("value")?))));
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    let (input, errors) =
        if is_interactive { (Stdio::inherit(), Stdio::inherit()) } else { (Stdio::null(), Stdio::piped()) };
    command.stdin(input).stdout(Stdio::piped()).stderr(errors).kill_on_drop(true);
    Ok(command)
}

/// Output, standard error and exit status. A process that the plugin leaves behind may keep the pipes open; reading
/// stops soon after the plugin has ended.
async fn finish(
    child: &mut Child,
    clock: &Clock,
) -> io::Result<(Vec<u8>, Vec<u8>, std::process::ExitStatus)> {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let status = {
        let mut read = pin!(async { tokio::try_join!(read(stdout, &mut output), read(stderr, &mut errors)) });
        let mut ended = pin!(child.wait());
        tokio::select! {
            biased;
            read = read.as_mut() => {
                read?;
                ended.await?
            }
            status = ended.as_mut() => {
                let status = status?;
                if let Ok(read) = clock.timeout(PIPE_DELAY, read).await {
                    read?;
                }
                status
            }
        }
    };
    Ok((output, errors, status))
}

/// Reads to the end or to the limit, then closes the pipe.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> io::Result<()> {
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT).read_to_end(bytes).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct ExecCredential {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Time>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Status {
    fn decode(self, program: String) -> Result<Credential, CredentialsError> {
        let token = self.token.filter(|token| !token.is_empty());
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {token}"))).transpose();
        let identity = match (&self.client_certificate_data, &self.client_key_data) {
            (Some(certificate), Some(key)) => identity(certificate, key).map(|it| Some(Arc::new(it))),
            (None, None) => Ok(None),
            _ => Err("a certificate and its key come together".into()),
        };
        let (Ok(mut token), Ok(identity)) = (token, identity) else {
            return Err(CredentialsError::Undecodable { program });
        };
        if token.is_none() && identity.is_none() {
            return Err(CredentialsError::Empty { program });
        }
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let expires = self.expiration_timestamp.map(|time| time.0.into());
        Ok(Credential { token, identity, expires })
    }
}

fn identity(certificate: &str, key: &str) -> Result<CertifiedKey, BoxError> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = rustls::crypto::ring::default_provider();
    Ok(CertifiedKey::from_der(chain, key, &provider)?)
}
