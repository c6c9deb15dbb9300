//! Who may ask: the API server says who a token's owner is, and what they may see.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;

use super::handler::{Response, text};
use crate::BoxError;

/// How long it may take to find out whether somebody may ask.
const LIMIT: Duration = Duration::from_secs(10);

/// So many questions may be with the API server at once.
const QUESTIONS: usize = 8;

/// So many answers of one kind are kept.
const ANSWERS: usize = 1024;

/// How long it is known whose a token is, or that it is nobody's.
const OWNER: Duration = Duration::from_secs(60);

/// How long it is known that somebody may see something, and that they may not.
const ALLOWED: Duration = Duration::from_secs(300);
const DENIED: Duration = Duration::from_secs(30);

/// The group of all that have said who they are.
const AUTHENTICATED: &str = "system:authenticated";

/// Lets in whom the API server lets see a path.
pub(super) struct Guard {
    kube: kube::Client,
    clock: Clock,
    questions: Semaphore,
    /// Whose token it is, if anybody's.
    owners: Answers<Option<UserInfo>>,
    /// Whether something is allowed.
    allowed: Answers<bool>,
}

impl Guard {
    pub(super) fn new(kube: kube::Client, clock: Clock) -> Self {
        let questions = Semaphore::new(QUESTIONS);
        Self { kube, clock, questions, owners: Answers::default(), allowed: Answers::default() }
    }

    /// Lets a request in, or answers it. The token goes no further.
    pub(super) async fn admit(&self, head: &mut Parts) -> Result<(), Response> {
        let unauthorized = || text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
        let token = bearer(&head.headers).ok_or_else(unauthorized)?.to_owned();
        head.headers.remove(AUTHORIZATION);
        let owner = self.within_limit(self.owner(&token)).await.map_err(|error| {
            tracing::error!(error = &*error, "cannot ask the API server whose token it is");
            text(StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n")
        })?;
        let owner = owner.ok_or_else(unauthorized)?;
        let user = owner.username.clone().unwrap_or_default();
        let (path, verb) = (head.uri.path(), head.method.as_str().to_ascii_lowercase());
        let is_allowed = self.within_limit(self.is_allowed(owner, path, &verb)).await.map_err(|error| {
            tracing::error!(error = &*error, user, path, "cannot ask the API server what somebody may see");
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("Authorization for user {user} failed\n"))
        })?;
        if is_allowed {
            return Ok(());
        }
        tracing::debug!(user, path, verb, "somebody may not see this");
        Err(text(StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")))
    }

    async fn within_limit<T>(
        &self,
        answer: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, BoxError> {
        self.clock.timeout(LIMIT, answer).await?
    }

    /// Whose token it is, if anybody's.
    async fn owner(&self, token: &str) -> Result<Option<UserInfo>, BoxError> {
        let question = Question::new(token.as_bytes());
        if let Some(owner) = self.owners.get(&question, self.clock.now()) {
            return Ok(owner);
        }
        let _turn = self.questions.acquire().await?;
        // Somebody else may have asked the same meanwhile.
        if let Some(owner) = self.owners.get(&question, self.clock.now()) {
            return Ok(owner);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let reviews = Api::<TokenReview>::all(self.kube.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        if let Some(error) = status.error.filter(|error| !error.is_empty()) {
            tracing::debug!(error, "a token is refused");
        }
        let owner = status.user.filter(|_| status.authenticated == Some(true)).map(|mut owner| {
            let groups = owner.groups.get_or_insert_default();
            if !groups.iter().any(|group| group == AUTHENTICATED) {
                groups.push(AUTHENTICATED.to_owned());
            }
            owner
        });
        self.owners.put(question, owner.clone(), self.clock.now(), OWNER);
        Ok(owner)
    }

    async fn is_allowed(&self, owner: UserInfo, path: &str, verb: &str) -> Result<bool, BoxError> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: owner.username,
            uid: owner.uid,
            groups: owner.groups,
            extra: owner.extra,
            non_resource_attributes: Some(attributes),
            ..Default::default()
        };
        let question = Question::new(&serde_json::to_vec(&spec)?);
        if let Some(is_allowed) = self.allowed.get(&question, self.clock.now()) {
            return Ok(is_allowed);
        }
        let _turn = self.questions.acquire().await?;
        if let Some(is_allowed) = self.allowed.get(&question, self.clock.now()) {
            return Ok(is_allowed);
        }
        let review = SubjectAccessReview { spec, ..Default::default() };
        let reviews = Api::<SubjectAccessReview>::all(self.kube.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let is_allowed = status.allowed && status.denied != Some(true);
        let lifetime = if is_allowed { ALLOWED } else { DENIED };
        self.allowed.put(question, is_allowed, self.clock.now(), lifetime);
        Ok(is_allowed)
    }
}

/// The token that a request carries.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let is_bearer = parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    parts.next().filter(|token| is_bearer && !token.is_empty())
}

/// What was asked, as a digest: a token is not kept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question(Vec<u8>);

impl Question {
    fn new(question: &[u8]) -> Self {
        Self(digest(&SHA256, question).as_ref().to_vec())
    }
}

/// Answers, each until its time is over.
struct Answers<T> {
    known: Mutex<BTreeMap<Question, (Instant, T)>>,
}

impl<T: Clone> Answers<T> {
    fn get(&self, question: &Question, now: Instant) -> Option<T> {
        let known = self.lock();
        known.get(question).filter(|(end, _)| now < *end).map(|(_, answer)| answer.clone())
    }

    fn put(&self, question: Question, answer: T, now: Instant, lifetime: Duration) {
        let mut known = self.lock();
        if known.len() >= ANSWERS {
            known.retain(|_, (end, _)| now < *end);
        }
        if known.len() >= ANSWERS
            && let Some(soonest) = known.iter().min_by_key(|(_, (end, _))| *end).map(|(key, _)| key.clone())
        {
            known.remove(&soonest);
        }
        known.insert(question, (now + lifetime, answer));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Question, (Instant, T)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bowline_clock::Simulation;
    use http_body_util::{BodyExt as _, Full};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server where any token is that of `ann`, who may see `/metrics` only; it keeps what it was asked.
    fn api_server(asked: &Arc<Mutex<Vec<Value>>>) -> kube::Client {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let asked = asked.clone();
            async move {
                let mut review: Value =
                    serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
                asked.lock().expect("nobody panics with it").push(review["kind"].clone());
                let is_allowed = review["spec"]["nonResourceAttributes"]["path"] == "/metrics";
                review["status"] =
                    json!({"authenticated": true, "user": {"username": "ann"}, "allowed": is_allowed});
                Ok::<_, tower::BoxError>(http::Response::new(Full::new(review.to_string().into())))
            }
        });
        kube::Client::new(service, "default")
    }

    #[test]
    fn what_the_api_server_said_is_asked_again_when_its_time_is_over() {
        Simulation::new(0).run(|clock| async move {
            let asked = Arc::default();
            let guard = Guard::new(api_server(&asked), clock.clone());
            for (after, path, questions) in [
                (0, "/metrics", &["TokenReview", "SubjectAccessReview"][..]),
                (0, "/debug", &["SubjectAccessReview"]),
                (29, "/debug", &[]),
                (30, "/debug", &["SubjectAccessReview"]),
                (59, "/metrics", &[]),
                (60, "/metrics", &["TokenReview"]),
                (119, "/metrics", &[]),
                (120, "/metrics", &["TokenReview"]),
                (299, "/metrics", &["TokenReview"]),
                (300, "/metrics", &["SubjectAccessReview"]),
            ] {
                clock.sleep_until(Instant::ZERO + Duration::from_secs(after)).await;
                let request = http::Request::get(path).header(AUTHORIZATION, "Bearer x").body(()).unwrap();
                let admitted = guard.admit(&mut request.into_parts().0).await;
                assert_eq!(admitted.is_ok(), path == "/metrics");
                assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), questions, "{path} after {after} s");
            }
        });
    }

    #[test]
    fn answers_are_known_for_their_time_and_never_too_many() {
        let answers = Answers::default();
        let (now, second) = (Instant::ZERO, Duration::from_secs(1));
        answers.put(Question::new(b"last"), 0, now, second * 10);
        for number in 1..=2 * ANSWERS {
            answers.put(Question::new(&number.to_be_bytes()), number, now, second);
        }
        assert_eq!(answers.lock().len(), ANSWERS);
        assert_eq!(answers.get(&Question::new(b"last"), now + second * 9), Some(0));
        assert_eq!(answers.get(&Question::new(b"last"), now + second * 10), None);
        answers.put(Question::new(b"next"), 1, now + second, second);
        assert_eq!(answers.lock().len(), 2, "what is over goes first");
    }

    #[test]
    fn a_token_is_what_comes_behind_bearer() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            (" bearer abc more", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
            assert_eq!(bearer(&headers), token, "{header:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
