//! Errors without secrets. kube's errors of credentials contain the environment, arguments and output of the credential
//! plugin, and the errors around them repeat this text.

use std::error::Error;

use kube::client::AuthError;

type BoxError = Box<dyn Error + Send + Sync>;

/// An error of credentials, without its secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RedactedError(String);

/// Replaces an error of credentials, together with the errors around it. Other errors stay as they are.
#[must_use]
pub fn without_secrets(error: BoxError) -> BoxError {
    if auth_error(&*error).is_some() { RedactedError(redacted_text(&*error)).into() } else { error }
}

/// The text of an error. The text of an error of credentials, which may be the error itself or one of its sources, is
/// replaced in it.
#[must_use]
pub fn redacted_text(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let Some(cause) = auth_error(error) else { return text };
    let shown = auth_error_text(cause);
    text.replace(&cause.to_string(), &shown).replace(&format!("{cause:?}"), &shown)
}

/// Whether this is an error of credentials. Its sources may contain secrets.
#[must_use]
pub fn is_auth_error(error: &(dyn Error + 'static)) -> bool {
    error.is::<AuthError>()
}

/// Text of an error of credentials without secrets.
#[must_use]
pub fn auth_error_text(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin failed ({})", out.status),
        AuthError::AuthExecParse(_) => "the credential plugin printed no valid ExecCredential".to_owned(),
        AuthError::ParseTokenKey(_) => "the credential plugin printed no valid JSON".to_owned(),
        AuthError::MalformedTokenExpirationDate(_) => "malformed token expiration date".to_owned(),
        // The others contain no output, and no arguments or environment.
        other => other.to_string(),
    }
}

fn auth_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a AuthError> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ExitStatus, Output};

    use super::*;
    use crate::ListWatchError;

    const SECRETS: [&str; 3] = ["SECRET-OF-ENV", "SECRET-OF-ARGS", "TOKEN-OF-STDOUT"];

    fn failed_plugin() -> AuthError {
        AuthError::AuthExecRun {
            cmd: "PASSWORD=SECRET-OF-ENV /bin/sh SECRET-OF-ARGS".to_owned(),
            out: Box::new(Output {
                status: ExitStatus::from_raw(256),
                stdout: b"TOKEN-OF-STDOUT".to_vec(),
                stderr: Vec::new(),
            }),
        }
    }

    fn text_of_chain(error: &(dyn Error + 'static)) -> String {
        let chain = std::iter::successors(Some(error), |error| (*error).source());
        chain.map(|error| format!("{error} {error:?}")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn an_error_of_a_list_shows_no_secret_of_a_credential_plugin() {
        let errors = [kube::Error::Auth(failed_plugin()), kube::Error::Service(failed_plugin().into())];
        for error in errors {
            let error = ListWatchError::transport(error);
            let text = text_of_chain(&error);
            assert!(text.contains("the credential plugin failed (exit status: 1)"), "{text}");
            for secret in SECRETS {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }

    #[test]
    fn the_text_of_every_error_around_an_error_of_credentials_is_redacted() {
        #[derive(Debug, thiserror::Error)]
        #[error("deploy: {source}; {source:?}")]
        struct Own {
            #[from]
            source: kube::Error,
        }
        let text = redacted_text(&Own::from(kube::Error::Auth(failed_plugin())));
        assert!(text.starts_with("deploy: auth error: the credential plugin failed"), "{text}");
        for secret in SECRETS {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn output_of_a_plugin_that_cannot_be_decoded_is_not_shown() {
        let error = serde_json::from_str::<u8>("\"TOKEN-OF-STDOUT\"").expect_err("it is no number");
        assert_eq!(
            redacted_text(&AuthError::ParseTokenKey(error)),
            "the credential plugin printed no valid JSON"
        );
    }

    #[test]
    fn other_errors_keep_their_text_and_type() {
        let error = without_secrets(std::io::Error::other("refused").into());
        assert!(error.is::<std::io::Error>() && redacted_text(&*error) == "refused");
    }
}
