//! Who makes a request. Who may do what is decided in one place, too, for the day when there is more to decide.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_clock::Rng;
use bowline_machinery::{GroupResource, Status};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use subtle::ConstantTimeEq as _;

use crate::request::{ResourcePath, Target, Verb};

/// Somebody who makes requests.
///
/// Put one into the extensions of a request to make it in that name; requests without one, in process, are made by an
/// administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Arc<str>,
    groups: Arc<[String]>,
}

pub(crate) const ADMIN: &str = "admin";
pub(crate) const ADMINS: &str = "system:masters";
const ANONYMOUS: &str = "system:anonymous";

impl User {
    /// Somebody with these groups.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, groups: impl IntoIterator<Item = String>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().collect() }
    }

    /// An administrator, who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self::new(ADMIN, [ADMINS.to_owned(), "system:authenticated".to_owned()])
    }

    /// Somebody who did not say who they are: they see health and version.
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

    /// Everybody who is known may do everything; there are no roles yet.
    fn is_known(&self) -> bool {
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

/// A secret that lets its bearer in.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// A new one: 32 random bytes.
    pub(crate) fn draw(rng: &Rng) -> Self {
        let mut bytes = [0; 32];
        rng.fill(&mut bytes);
        Self(URL_SAFE_NO_PAD.encode(bytes).into())
    }

    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes the same time for all that are wrong, so that nobody can guess one piece by piece.
    fn is(&self, other: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(other).into()
    }
}

/// Never shows it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// How those who come over a socket are known.
pub(crate) struct Authenticator {
    token: Token,
    admin: User,
    anonymous: User,
}

impl Authenticator {
    pub(crate) fn new(token: Token) -> Self {
        Self { token, admin: User::admin(), anonymous: User::anonymous() }
    }

    /// Who it is, by the certificate of the connection or else by the request's token. Somebody who shows neither is
    /// anonymous; somebody with a wrong token is nobody.
    ///
    /// A certificate that was verified is the administrator's: the authority has signed no other.
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

/// The token of a request, if it has any. Other ways to say who one is are not looked at.
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
        let token = Token::draw(&Rng::seeded(1));
        assert_eq!(format!("{token:?}"), "Token(..)");
        let authenticator = Authenticator::new(token.clone());
        let user = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().expect("a header"))]);
            authenticator.user(false, &headers).map(|user| user.name().to_owned()).map_err(|error| error.code)
        };
        let right = token.reveal();
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
