//! Where a list goes on: the token that a client gets with a page and brings back for the next. Clients can send
//! anything.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bowline_machinery::Status;
use bowline_storage::Revision;
use serde::{Deserialize, Serialize};

/// Go does not mind bits that are left over at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

const VERSION: &str = "meta.k8s.io/v1";

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of all pages; `None` to go on with what there is now.
    pub(crate) at: Option<Revision>,
    /// The last key of the page before, without what all keys of the list begin with.
    pub(crate) after: String,
}

/// As it travels: the form of kube-apiserver.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

impl ContinueToken {
    pub(crate) fn encode(&self) -> String {
        let rv = self.at.map_or(-1, |at| i64::try_from(at.get()).unwrap_or(i64::MAX));
        // The next page begins with the first key behind the last one.
        let wire = Wire { v: VERSION.to_owned(), rv, start: format!("/{}\0", self.after) };
        BASE64.encode(serde_json::to_vec(&wire).expect("text and numbers can always be written"))
    }

    pub(crate) fn decode(token: &str) -> Result<Self, Status> {
        let Wire { v, rv, start } = wire(token).map_err(|why| {
            Status::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        })?;
        debug_assert_eq!(v, VERSION);
        let at = u64::try_from(rv).ok().map(Revision::new);
        let after = start.strip_prefix('/').unwrap_or(&start).trim_end_matches('\0').to_owned();
        Ok(Self { at, after })
    }
}

/// The token's contents, or what is wrong with them in Go's words.
fn wire(token: &str) -> Result<Wire, String> {
    if let Some(place) = illegal_byte(token) {
        return Err(format!(": illegal base64 data at input byte {place}"));
    }
    let bytes = BASE64.decode(token).map_err(|error| format!(": {error}"))?;
    let wire: Wire = serde_json::from_slice(&bytes).map_err(|error| format!(": {error}"))?;
    if wire.v != VERSION {
        return Err(format!(": server does not recognize this encoded version {}", wire.v));
    }
    if wire.rv == 0 {
        return Err(format!(": incorrect encoded start resourceVersion (version {VERSION})"));
    }
    if wire.start.is_empty() {
        return Err(format!(": encoded start key empty (version {VERSION})"));
    }
    // Nobody leaves the list with a path that goes up.
    let path = wire.start.strip_prefix('/').unwrap_or(&wire.start);
    if !path.is_empty() && path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(format!(": {}", wire.start));
    }
    Ok(wire)
}

/// The first byte that does not belong there, where Go finds it.
fn illegal_byte(token: &str) -> Option<usize> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let alone = || (token.len() % 4 == 1).then(|| token.len() - 1);
    token.bytes().position(|byte| !is_known(byte)).or_else(alone)
}

#[cfg(test)]
mod tests {
    use bowline_clock::Rng;

    use super::*;

    #[test]
    fn a_token_says_what_was_written_into_it() {
        for token in [
            ContinueToken { at: Some(Revision::new(7)), after: "b".to_owned() },
            ContinueToken { at: Some(Revision::new(u64::MAX / 2)), after: "ns/b".to_owned() },
            ContinueToken { at: None, after: "b".to_owned() },
        ] {
            assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn whatever_a_client_sends_is_a_token_or_a_bad_request() {
        let seed = 3;
        let rng = Rng::seeded(seed);
        let good = ContinueToken { at: Some(Revision::new(7)), after: "ns/b".to_owned() }.encode();
        for round in 0..20_000 {
            let text = if round % 2 == 0 { random(&rng) } else { mutated(&good, &rng) };
            match ContinueToken::decode(&text) {
                Ok(token) => {
                    let again = ContinueToken::decode(&token.encode());
                    assert_eq!(again.map(|again| again.at), Ok(token.at), "seed {seed}: {text:?}");
                }
                Err(status) => assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest")),
            }
        }
    }

    fn random(rng: &Rng) -> String {
        let length = rng.range(0..40);
        (0..length).filter_map(|_| char::from_u32(u32::try_from(rng.range(0..0x300)).ok()?)).collect()
    }

    /// Changed on the outside, or on the inside and put into base64 again.
    fn mutated(good: &str, rng: &Rng) -> String {
        let inside = rng.range(0..2) == 0;
        let mut bytes =
            if inside { BASE64.decode(good).expect("it is good") } else { good.as_bytes().to_vec() };
        for _ in 0..=rng.range(0..3) {
            let place = usize::try_from(rng.range(0..bytes.len() as u64)).expect("it is small");
            match rng.range(0..3) {
                0 => bytes[place] = u8::try_from(rng.range(0..256)).expect("it is a byte"),
                1 => drop(bytes.remove(place)),
                _ => bytes
                    .insert(place, b"\0/.\"{}09-"[usize::try_from(rng.range(0..9)).expect("it is small")]),
            }
        }
        if inside { BASE64.encode(bytes) } else { String::from_utf8_lossy(&bytes).into_owned() }
    }
}
