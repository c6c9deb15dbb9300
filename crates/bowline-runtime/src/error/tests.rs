//! Context, conversions and predicates.

use std::io;

use bowline_cache::{CacheError, ObjectKey};
use kube::core::Status;

use super::*;
use crate::finalizer::FinalizerError;
use crate::{ClientError, Conflict, EnsureError, Operation, UpdateStatusError, Verb};

fn refused(code: u16, reason: &str) -> ClientError {
    let operation = Operation {
        verb: Verb::Patch,
        kind: "configmaps/v1".to_owned(),
        key: Some(ObjectKey::new("a", "b")),
        subresource: None,
    };
    let status = Status::failure("it is refused", reason).with_code(code);
    ClientError::Status { operation: Box::new(operation), status: Box::new(status) }
}

fn conflict() -> ClientError {
    refused(409, "Conflict")
}

fn not_cached() -> ClientError {
    let source = CacheError::NotCached {
        kind: "configmaps/v1".to_owned(),
        namespace: "a".to_owned(),
        cached: "namespace b".to_owned(),
    };
    let operation =
        Operation { verb: Verb::Get, kind: "configmaps/v1".to_owned(), key: None, subresource: None };
    ClientError::Cache { operation: Box::new(operation), source: Box::new(source) }
}

/// An error type of an author, which hides the type of its source.
#[derive(Debug, thiserror::Error)]
enum Own {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the game cannot be played")]
    Ensure(#[from] EnsureError),
}

/// All predicates: conflict, not found, already exists, not cached, terminal.
fn kinds(error: &(impl ErrorPredicates + ?Sized)) -> [bool; 5] {
    [
        error.is_conflict(),
        error.is_not_found(),
        error.is_already_exists(),
        error.is_not_cached(),
        error.is_terminal(),
    ]
}

const CONFLICT: [bool; 5] = [true, false, false, false, false];
const NOT_FOUND: [bool; 5] = [false, true, false, false, false];
const ALREADY_EXISTS: [bool; 5] = [false, false, true, false, false];
const NOT_CACHED: [bool; 5] = [false, false, false, true, true];
const TERMINAL: [bool; 5] = [false, false, false, false, true];

#[test]
fn each_kind_of_failure_is_told_apart() {
    assert_eq!(kinds(&conflict()), CONFLICT);
    assert_eq!(kinds(&refused(404, "NotFound")), NOT_FOUND);
    assert_eq!(kinds(&refused(409, "AlreadyExists")), ALREADY_EXISTS);
    assert_eq!(kinds(&not_cached()), NOT_CACHED);
    assert_eq!(kinds(terminal("never").as_std()), TERMINAL);
    assert_eq!(kinds(&refused(403, "Forbidden")), [false; 5]);
    assert_eq!(kinds(&kube::Error::Api(Box::new(Status::failure("", "Conflict").with_code(409)))), CONFLICT);
}

#[test]
fn the_kind_of_a_failure_survives_every_wrapper() {
    let failed = |source: BoxError| FinalizerError::Failed {
        key: "example.com/a".to_owned(),
        object: "ConfigMap a/b".to_owned(),
        source,
    };
    for (make, expected) in [
        (conflict as fn() -> ClientError, CONFLICT),
        (|| refused(404, "NotFound"), NOT_FOUND),
        (not_cached, NOT_CACHED),
    ] {
        assert_eq!(kinds(&EnsureError::from(make())), expected);
        assert_eq!(kinds(&UpdateStatusError::from(make())), expected);
        assert_eq!(kinds(&failed(Box::new(make()))), expected);
        assert_eq!(kinds(&Own::from(make())), expected);
        assert_eq!(kinds(&Own::from(EnsureError::from(make()))), expected);

        let error = Error::from(Own::from(make())).context("inner").context("outer");
        assert_eq!(kinds(error.as_std()), expected);
        let own = [error.is_conflict(), error.is_not_found(), error.is_already_exists()];
        assert_eq!([own[0], own[1], own[2], error.is_not_cached(), error.is_terminal()], expected);
        assert!(error.find::<Own>().is_some());

        let standard: Box<dyn StdError> = Error::from(make()).into();
        assert_eq!(kinds(&*standard), expected);
        let anyhow = anyhow::Error::new(Error::from(make()).into_std()).context("from anyhow");
        assert_eq!(kinds(&*anyhow), expected);
        assert_eq!(kinds(Error::from_boxed(anyhow.into()).as_std()), expected);
        assert_eq!(kinds(&*BoxError::from(anyhow::Error::new(make()))), expected);
    }
    let anyhow = anyhow::Error::new(terminal("never").into_std());
    assert_eq!(kinds(&*anyhow), TERMINAL);
    assert_eq!(kinds(&*BoxError::from(anyhow)), TERMINAL);
}

#[test]
fn context_stands_in_front_and_each_source_is_printed_once() {
    let error = Error::from(conflict()).context("the game cannot be saved");
    let text = "the game cannot be saved: patch configmaps/v1 a/b: it is refused (409 Conflict)";
    assert_eq!(error.to_string(), text);
    let error = Error::from(Own::from(EnsureError::from(conflict())));
    let text = "the game cannot be played: patch configmaps/v1 a/b: it is refused (409 Conflict)";
    assert_eq!(error.to_string(), text);
    assert_eq!(Error::from(conflict()).to_string(), "patch configmaps/v1 a/b: it is refused (409 Conflict)");
}

#[test]
fn context_is_for_results_of_any_error_and_for_options() {
    let ours: Result<()> = Err(terminal("never"));
    let ours = ours.context("first").unwrap_err();
    assert!(ours.is_terminal());
    assert_eq!(ours.to_string(), "first: terminal error: never");
    let theirs: Result<(), io::Error> = Err(io::Error::other("broken"));
    assert_eq!(theirs.with_context(|| "second").unwrap_err().to_string(), "second: broken");
    assert_eq!(None::<()>.context("third").unwrap_err().to_string(), "third");
    assert_eq!(Some(1).with_context(|| -> &str { unreachable!("it is not needed") }).unwrap(), 1);
    assert_eq!(Ok::<_, Error>(1).context("unused").unwrap(), 1);
}

fn ours() -> Result<()> {
    Err(Error::from(conflict()).context("ours"))
}

/// A module that uses anyhow's trait, not ours: calls would be ambiguous with both.
mod of_anyhow {
    use anyhow::Context as _;

    pub(super) fn saved() -> anyhow::Result<()> {
        super::ours().map_err(super::Error::into_std).context("theirs")?;
        Ok(())
    }
}

#[test]
fn errors_convert_for_functions_of_other_error_types() {
    fn with_box() -> Result<(), Box<dyn StdError>> {
        Ok(ours()?)
    }
    fn with_send_box() -> Result<(), BoxError> {
        Ok(ours()?)
    }
    let anyhow = of_anyhow::saved().unwrap_err();
    let chain: Vec<_> = anyhow.chain().map(ToString::to_string).collect();
    assert_eq!(chain[..2], ["theirs", "ours"]);
    assert_eq!(chain[2], "patch configmaps/v1 a/b: it is refused (409 Conflict)");
    assert!(anyhow.chain().any(<dyn StdError>::is::<ClientError>) && anyhow.is_conflict());
    assert!(with_box().unwrap_err().is_conflict());
    assert!(with_send_box().unwrap_err().is_conflict());
}

#[test]
fn a_conflict_is_found_for_a_retry_whatever_wraps_it() {
    let wrapped = [
        Error::from(conflict()),
        Error::from(EnsureError::from(conflict())),
        Error::from(UpdateStatusError::from(conflict())).context("outer"),
        Error::from(Own::from(conflict())),
    ];
    for error in wrapped {
        assert!(Conflict::is_conflict(&error), "{error}");
        assert!(Conflict::is_conflict(&BoxError::from(error)));
    }
    assert!(Conflict::is_conflict(&EnsureError::from(conflict())));
    assert!(Conflict::is_conflict(&UpdateStatusError::from(conflict())));
    let key = "example.com/a".to_owned();
    assert!(Conflict::is_conflict(&FinalizerError::Client { key, source: conflict() }));
    assert!(Error::from(EnsureError::from(conflict())).find::<ClientError>().is_some());
    assert!(Error::from(UpdateStatusError::from(conflict())).find::<ClientError>().is_some());
    assert!(!Conflict::is_conflict(&Error::from(refused(404, "NotFound"))));
}

#[test]
fn a_missing_right_and_an_old_version_are_found_through_every_wrapper() {
    let forbidden = Error::from(EnsureError::from(refused(403, "Forbidden"))).context("outer");
    assert!(forbidden.is_forbidden() && !forbidden.is_expired());
    let expired = Error::from(Own::from(refused(410, "Expired")));
    assert!(expired.is_expired() && !expired.is_forbidden());
}

#[cfg(unix)]
#[test]
fn secrets_in_errors_of_a_given_client_are_not_shown() {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ExitStatus, Output};

    let out =
        Output { status: ExitStatus::from_raw(256), stdout: b"TOKEN-OF-STDOUT".to_vec(), stderr: Vec::new() };
    let cmd = "PASSWORD=SECRET-OF-ENV sh SECRET-OF-ARGS".to_owned();
    let cause = kube::client::AuthError::AuthExecRun { cmd, out: Box::new(out) };
    let text = Error::from(kube::Error::Service(cause.into())).context("cannot list").to_string();
    assert_eq!(text, "cannot list: ServiceError: the credential plugin failed (exit status: 1)");
}
