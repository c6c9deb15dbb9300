//! Authenticates and authorizes requests with token and access reviews of an API server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use http::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER};
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
use crate::error::describe;
use crate::log_throttle::LogThrottle;

/// Timeout of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum reviews in progress: for known users and tokens, and for unknown tokens. They are separate, so that unknown
/// tokens do not block the others while the API server is slow.
const MAX_REVIEWS: usize = 8;
const MAX_UNKNOWN_REVIEWS: usize = 4;

/// Maximum cached results per type.
const MAX_CACHED: usize = 1024;

/// Maximum length of a token. Those of service accounts have about 1 KiB.
const MAX_TOKEN: usize = 8 << 10;

/// Interval of reviews of unknown tokens after a burst.
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum burst of reviews of unknown tokens.
const BURST: u32 = 20;

/// Cache lifetime of the user of a token, and of a rejected token.
const OWNER_LIFETIME: Duration = Duration::from_secs(60);

/// Cache lifetimes of a permission and of a denial.
const ALLOWED_LIFETIME: Duration = Duration::from_secs(300);
const DENIED_LIFETIME: Duration = Duration::from_secs(30);

/// Group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// Admits requests that the API server allows.
pub(super) struct TokenAuthorizer {
    kube: kube::Client,
    clock: Clock,
    reviews: Semaphore,
    unknown_reviews: Semaphore,
    /// Users of accepted tokens.
    owners: ReviewCache<UserInfo>,
    /// Rejected tokens; separate, so that they do not evict accepted ones.
    refused: ReviewCache<()>,
    unknown: Bucket,
    /// Results of access reviews.
    allowed: ReviewCache<bool>,
    /// Scrapes come every few seconds: the same failure is not logged for each.
    log: Mutex<LogThrottle>,
}

impl TokenAuthorizer {
    pub(super) fn new(kube: kube::Client, clock: Clock) -> Self {
        Self {
            kube,
            clock,
            reviews: Semaphore::new(MAX_REVIEWS),
            unknown_reviews: Semaphore::new(MAX_UNKNOWN_REVIEWS),
            owners: ReviewCache::default(),
            refused: ReviewCache::default(),
            unknown: Bucket::default(),
            allowed: ReviewCache::default(),
            log: Mutex::default(),
        }
    }

    /// Admits a request, or returns the response. Removes the token from the request.
    pub(super) async fn admit(&self, head: &mut Parts) -> Result<(), Response> {
        let unauthorized = || text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
        let token = bearer(&head.headers).ok_or_else(unauthorized)?.to_owned();
        head.headers.remove(AUTHORIZATION);
        let owner = self.within_limit(self.owner(&token)).await.map_err(|error| {
            let missing = self.report("TokenReview", &error);
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("Authentication failed{missing}\n"))
        })?;
        let owner = match owner {
            TokenOwner::Known(owner) => owner,
            TokenOwner::Invalid => return Err(unauthorized()),
            TokenOwner::RateLimited => {
                let mut response = text(StatusCode::TOO_MANY_REQUESTS, "Too many unknown tokens\n");
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                return Err(response);
            }
        };
        let user = owner.username.clone().unwrap_or_default();
        let (path, verb) = (head.uri.path(), head.method.as_str().to_ascii_lowercase());
        let is_allowed = self.within_limit(self.is_allowed(owner, path, &verb)).await.map_err(|error| {
            let missing = self.report("SubjectAccessReview", &error);
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("Authorization for user {user} failed{missing}\n"),
            )
        })?;
        if is_allowed {
            return Ok(());
        }
        tracing::debug!(user, path, verb, "access denied");
        Err(text(StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")))
    }

    /// Logs a failed review. Returns a text for the client that names the missing kind, if it is missing.
    fn report(&self, kind: &'static str, error: &BoxError) -> String {
        let is_missing = matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404);
        let missing = format!(": the API server does not serve {kind}");
        let text = if is_missing {
            format!(
                "the API server does not serve {kind}, so that no token can be checked: \
                 serve metrics without authentication, or use a cluster that has it"
            )
        } else {
            describe(&**error)
        };
        if self.log.lock().unwrap_or_else(PoisonError::into_inner).is_news(&text, self.clock.now()) {
            tracing::error!(review = kind, error = text, "cannot authorize requests");
        }
        if is_missing { missing } else { String::new() }
    }

    async fn within_limit<T>(
        &self,
        answer: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, BoxError> {
        self.clock.timeout(REVIEW_TIMEOUT, answer).await?
    }

    /// Returns the user of a token. Tokens that were accepted before are reviewed again after their cache lifetime.
    /// Only unknown tokens are rate-limited, so that a flood of them does not block known users.
    async fn owner(&self, token: &str) -> Result<TokenOwner, BoxError> {
        if !is_token(token) {
            return Ok(TokenOwner::Invalid);
        }
        let key = ReviewKey::new(token.as_bytes());
        if let Some(owner) = self.known(&key) {
            return Ok(owner);
        }
        let was_let_in = self.owners.had(&key);
        if !was_let_in && !self.unknown.take(self.clock.now()) {
            return Ok(TokenOwner::RateLimited);
        }
        let reviews = if was_let_in { &self.reviews } else { &self.unknown_reviews };
        let _turn = reviews.acquire().await?;
        // Another request may have completed the same review meanwhile.
        if let Some(owner) = self.known(&key) {
            return Ok(owner);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let reviews = Api::<TokenReview>::all(self.kube.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        if let Some(error) = status.error.filter(|error| !error.is_empty()) {
            tracing::debug!(error, "token rejected");
        }
        let owner = status.user.filter(|_| status.authenticated == Some(true)).map(|mut owner| {
            let groups = owner.groups.get_or_insert_default();
            if !groups.iter().any(|group| group == AUTHENTICATED) {
                groups.push(AUTHENTICATED.to_owned());
            }
            owner
        });
        let now = self.clock.now();
        Ok(if let Some(owner) = owner {
            self.owners.put(key, owner.clone(), now, OWNER_LIFETIME);
            TokenOwner::Known(owner)
        } else {
            self.owners.remove(&key);
            self.refused.put(key, (), now, OWNER_LIFETIME);
            TokenOwner::Invalid
        })
    }

    /// The cached result for a token.
    fn known(&self, key: &ReviewKey) -> Option<TokenOwner> {
        let now = self.clock.now();
        let owner = self.owners.get(key, now).map(TokenOwner::Known);
        owner.or_else(|| self.refused.get(key, now).map(|()| TokenOwner::Invalid))
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
        let key = ReviewKey::new(&serde_json::to_vec(&spec)?);
        if let Some(is_allowed) = self.allowed.get(&key, self.clock.now()) {
            return Ok(is_allowed);
        }
        let _turn = self.reviews.acquire().await?;
        if let Some(is_allowed) = self.allowed.get(&key, self.clock.now()) {
            return Ok(is_allowed);
        }
        let review = SubjectAccessReview { spec, ..Default::default() };
        let reviews = Api::<SubjectAccessReview>::all(self.kube.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let is_allowed = status.allowed && status.denied != Some(true);
        let lifetime = if is_allowed { ALLOWED_LIFETIME } else { DENIED_LIFETIME };
        self.allowed.put(key, is_allowed, self.clock.now(), lifetime);
        Ok(is_allowed)
    }
}

/// Result of a token review.
enum TokenOwner {
    Known(UserInfo),
    Invalid,
    /// An unknown token over the rate limit.
    RateLimited,
}

/// A token bucket: [`BURST`] at once, and one more per [`INTERVAL`].
struct Bucket {
    /// Time at which it is full again.
    full: Mutex<Instant>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { full: Mutex::new(Instant::ZERO) }
    }
}

impl Bucket {
    /// Takes a token, if there is one.
    fn take(&self, now: Instant) -> bool {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*full).max(now) + INTERVAL;
        if next > now + INTERVAL * BURST {
            return false;
        }
        *full = next;
        true
    }
}

/// Whether a text can be a token of a Kubernetes user: a JWT of limited length, that is, three parts in base64url.
fn is_token(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_base64);
    text.len() <= MAX_TOKEN && text.split('.').count() == 3 && text.split('.').all(is_part)
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let is_bearer = parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    parts.next().filter(|token| is_bearer && !token.is_empty())
}

/// Digest of a question, so that tokens are not stored.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReviewKey(Vec<u8>);

impl ReviewKey {
    fn new(key: &[u8]) -> Self {
        Self(digest(&SHA256, key).as_ref().to_vec())
    }
}

/// Cached results with lifetimes.
struct ReviewCache<T> {
    known: Mutex<BTreeMap<ReviewKey, (Instant, T)>>,
}

impl<T: Clone> ReviewCache<T> {
    fn get(&self, key: &ReviewKey, now: Instant) -> Option<T> {
        let known = self.lock();
        known.get(key).filter(|(end, _)| now < *end).map(|(_, answer)| answer.clone())
    }

    /// Whether there is a result, expired or not.
    fn had(&self, key: &ReviewKey) -> bool {
        self.lock().contains_key(key)
    }

    fn remove(&self, key: &ReviewKey) {
        self.lock().remove(key);
    }

    fn put(&self, key: ReviewKey, answer: T, now: Instant, lifetime: Duration) {
        let mut known = self.lock();
        if known.len() >= MAX_CACHED && !known.contains_key(&key) {
            known.retain(|_, (end, _)| now < *end);
        }
        if known.len() >= MAX_CACHED
            && !known.contains_key(&key)
            && let Some(soonest) = known.iter().min_by_key(|(_, (end, _))| *end).map(|(key, _)| key.clone())
        {
            known.remove(&soonest);
        }
        known.insert(key, (now + lifetime, answer));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ReviewKey, (Instant, T)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for ReviewCache<T> {
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

    /// An API server at which every token belongs to `ann`, except those that end with `no`. She may see only
    /// `/metrics`. Records the reviews.
    fn api_server(asked: &Arc<Mutex<Vec<Value>>>) -> kube::Client {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let asked = asked.clone();
            async move {
                let mut review: Value =
                    serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
                asked.lock().expect("the lock is not poisoned").push(review["kind"].clone());
                let is_allowed = review["spec"]["nonResourceAttributes"]["path"] == "/metrics";
                let is_known = !review["spec"]["token"].as_str().is_some_and(|token| token.ends_with("no"));
                review["status"] =
                    json!({"authenticated": is_known, "user": {"username": "ann"}, "allowed": is_allowed});
                Ok::<_, tower::BoxError>(http::Response::new(Full::new(review.to_string().into())))
            }
        });
        kube::Client::new(service, "default")
    }

    #[test]
    fn reviews_are_repeated_after_their_lifetime() {
        Simulation::new(0).run(|clock| async move {
            let asked = Arc::default();
            let guard = TokenAuthorizer::new(api_server(&asked), clock.clone());
            for (after, path, reviews) in [
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
                let request =
                    http::Request::get(path).header(AUTHORIZATION, "Bearer a.b.x").body(()).unwrap();
                let admitted = guard.admit(&mut request.into_parts().0).await;
                assert_eq!(admitted.is_ok(), path == "/metrics");
                assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), reviews, "{path} after {after} s");
            }
        });
    }

    async fn status(guard: &TokenAuthorizer, token: &str) -> StatusCode {
        let bearer = format!("Bearer {token}");
        let request = http::Request::get("/metrics").header(AUTHORIZATION, bearer).body(()).unwrap();
        let admitted = guard.admit(&mut request.into_parts().0).await;
        admitted.map_or_else(|refusal| refusal.status(), |()| StatusCode::OK)
    }

    #[test]
    fn a_flood_of_unknown_tokens_is_rate_limited_and_blocks_no_known_user() {
        Simulation::new(0).run(|clock| async move {
            let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
            let guard = TokenAuthorizer::new(api_server(&asked), clock.clone());
            assert_eq!(status(&guard, "a.b.good").await, StatusCode::OK);
            let asked_by_now = || asked.lock().unwrap().len();
            assert_eq!(asked_by_now(), 2);
            for number in 0..2 * MAX_CACHED {
                let status = status(&guard, &format!("a.{number}.no")).await;
                let expected =
                    if number < 19 { StatusCode::UNAUTHORIZED } else { StatusCode::TOO_MANY_REQUESTS };
                assert_eq!(status, expected, "{number}");
            }
            assert_eq!(asked_by_now(), 2 + 19, "20 at once");
            assert_eq!(status(&guard, "a.0.no").await, StatusCode::UNAUTHORIZED, "a refusal is known");
            assert_eq!(status(&guard, "a.b.good").await, StatusCode::OK);
            assert_eq!(asked_by_now(), 2 + 19, "and so is an owner");
            // The cached user expires, and the bucket is emptied again.
            clock.sleep(Duration::from_secs(61)).await;
            while status(&guard, &format!("b.{}.no", asked_by_now())).await == StatusCode::UNAUTHORIZED {}
            let before = asked_by_now();
            assert_eq!(
                status(&guard, "a.b.good").await,
                StatusCode::OK,
                "accepted before, so asked about at once"
            );
            assert_eq!(asked_by_now(), before + 1);
            clock.sleep(INTERVAL).await;
            assert_eq!(status(&guard, "c.c.no").await, StatusCode::UNAUTHORIZED);
            assert_eq!(status(&guard, "c.d.no").await, StatusCode::TOO_MANY_REQUESTS);
        });
    }

    #[test]
    fn texts_that_are_no_tokens_are_not_reviewed() {
        Simulation::new(0).run(|clock| async move {
            let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
            let guard = TokenAuthorizer::new(api_server(&asked), clock.clone());
            let long = format!("a.b.{}", "x".repeat(MAX_TOKEN));
            for token in ["x", "a.b", "a.b.", ".b.c", "a.b.c.d", "a.b.c=", "a.b.c/", &long] {
                assert_eq!(status(&guard, token).await, StatusCode::UNAUTHORIZED, "{token:.20}");
            }
            assert!(asked.lock().unwrap().is_empty());
            assert_eq!(status(&guard, &long[..MAX_TOKEN]).await, StatusCode::OK);
        });
    }

    #[test]
    fn cached_results_expire_and_are_bounded() {
        let answers = ReviewCache::default();
        let (now, second) = (Instant::ZERO, Duration::from_secs(1));
        answers.put(ReviewKey::new(b"last"), 0, now, second * 10);
        for number in 1..=2 * MAX_CACHED {
            answers.put(ReviewKey::new(&number.to_be_bytes()), number, now, second);
        }
        assert_eq!(answers.lock().len(), MAX_CACHED);
        assert_eq!(answers.get(&ReviewKey::new(b"last"), now + second * 9), Some(0));
        assert_eq!(answers.get(&ReviewKey::new(b"last"), now + second * 10), None);
        answers.put(ReviewKey::new(b"next"), 1, now + second, second);
        assert_eq!(answers.lock().len(), 2, "what is over goes first");
    }

    #[test]
    fn a_token_follows_bearer() {
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
