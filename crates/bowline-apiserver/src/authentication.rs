//! Authentication of requests, and the one place that authorizes them.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_machinery::{GroupResource, Status};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;

use crate::request::{ResourcePath, Target, Verb};

/// The user of a request.
///
/// Insert one into the extensions of a request to send it as that user. In-process requests without one are the
/// administrator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Arc<str>,
    groups: Arc<[String]>,
}

pub(crate) const ADMIN: &str = "admin";
pub(crate) const ADMINS: &str = "system:masters";
const ANONYMOUS: &str = "system:anonymous";

impl User {
    /// A user with these groups.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, groups: impl IntoIterator<Item = String>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().collect() }
    }

    /// An administrator, with access to everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new(ADMIN, [ADMINS.to_owned(), "system:authenticated".to_owned()])
    }

    /// The unauthenticated user, with access to health and version only.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, ["system:unauthenticated".to_owned()])
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Authorizes every authenticated user for everything; there are no roles yet.
    pub(crate) fn is_known(&self) -> bool {
        &*self.name != ANONYMOUS
    }

    pub(crate) fn authorize(&self, path: &ResourcePath, method: &Method, watch: bool) -> Result<(), Status> {
        if self.is_known() {
            return Ok(());
        }
        let verb = Verb::of(method, path, watch).map_or("", Verb::as_str);
        let resource = GroupResource::new(&path.group, &path.resource);
        let name = path.name.as_deref().unwrap_or_default();
        let scope = match &path.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let below = path.subresource.as_ref().map_or_else(String::new, |below| format!("/{below}"));
        let why = format!(
            "User {:?} cannot {verb} resource \"{}{below}\" in API group {:?} {scope}",
            self.name, path.resource, path.group
        );
        Err(Status::forbidden(&resource, name, &why))
    }

    pub(crate) fn authorize_path(&self, target: &Target, method: &Method, path: &str) -> Result<(), Status> {
        let open = matches!(target, Target::Health { .. } | Target::Version);
        if open || self.is_known() {
            return Ok(());
        }
        let verb = method.as_str().to_ascii_lowercase();
        let why = format!("User {:?} cannot {verb} path {path:?}", self.name);
        let mut status = Status::failure(403, "Forbidden", format!("forbidden: {why}"));
        status.details = Some(Box::default());
        Err(status)
    }
}

/// A bearer token.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// Generates a token from 32 bytes of the system's randomness. A clock's generator may have a known seed.
    ///
    /// # Errors
    /// When the system cannot provide randomness.
    pub(crate) fn draw() -> Result<Self, Unspecified> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes).into()))
    }

    /// The secret text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in constant time, so that a token cannot be guessed piece by piece.
    fn is(&self, other: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(other).into()
    }
}

/// Redacted.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Authentication of clients on a socket.
pub(crate) struct Authenticator {
    token: Token,
    admin: User,
    anonymous: User,
}

impl Authenticator {
    pub(crate) fn new(token: Token) -> Self {
        Self { token, admin: User::admin(), anonymous: User::anonymous() }
    }

    /// The user by the connection's certificate, or else by the request's token. Without either the user is anonymous;
    /// a wrong token is an error.
    ///
    /// A verified certificate is the administrator's: the authority has signed no other.
    pub(crate) fn user(&self, has_certificate: bool, headers: &HeaderMap) -> Result<&User, Status> {
        if has_certificate {
            return Ok(&self.admin);
        }
        match bearer(headers) {
            None => Ok(&self.anonymous),
            Some(token) if self.token.is(token) => Ok(&self.admin),
            Some(_) => Err(Status::unauthorized()),
        }
    }
}

/// The bearer token of a request, if any. Other authentication schemes are ignored.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_a_wrong_one_refused_and_none_is_nobody() {
        let token = Token::draw().expect("the system has randomness");
        assert_eq!(format!("{token:?}"), "Token(..)");
        let another = Token::draw().expect("the system has randomness");
        assert_ne!(token.expose(), another.expose());
        let authenticator = Authenticator::new(token.clone());
        let user = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().expect("a header"))]);
            authenticator.user(false, &headers).map(|user| user.name().to_owned()).map_err(|error| error.code)
        };
        let right = token.expose();
        assert_eq!(right.len(), 43);
        assert_eq!(user(&format!("Bearer {right}")), Ok("admin".to_owned()));
        assert_eq!(user(&format!("bearer  {right} ")), Ok("admin".to_owned()));
        for wrong in [&right[1..], "x", &format!("{right}0")] {
            assert_eq!(user(&format!("Bearer {wrong}")), Err(401));
        }
        for nothing in ["", "Bearer", "Bearer ", "Basic YTpi"] {
            assert_eq!(user(nothing), Ok("system:anonymous".to_owned()), "{nothing:?}");
        }
        let certified = authenticator.user(true, &HeaderMap::new()).map(User::name);
        assert_eq!(certified, Ok("admin"));
    }

    #[test]
    fn somebody_who_does_not_say_who_they_are_sees_health_and_version_only() {
        let nobody = User::anonymous();
        assert_eq!(nobody.authorize_path(&Target::Version, &Method::GET, "/version"), Ok(()));
        let error =
            nobody.authorize_path(&Target::Groups, &Method::GET, "/apis").expect_err("it is forbidden");
        assert_eq!(error.message, r#"forbidden: User "system:anonymous" cannot get path "/apis""#);
        let Target::Resource(path) = Target::of("/api/v1/namespaces/default/configmaps") else {
            panic!("it is a resource");
        };
        let error = nobody.authorize(&path, &Method::GET, false).expect_err("it is forbidden");
        assert_eq!(
            error.message,
            "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" \
             in the namespace \"default\""
        );
        assert_eq!(User::admin().authorize(&path, &Method::GET, false), Ok(()));
    }
}
