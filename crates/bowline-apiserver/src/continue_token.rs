//! Continue tokens: a client gets one with each page and returns it for the next. Clients can send anything.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bowline_machinery::Status;
use bowline_storage::Revision;
use serde::{Deserialize, Serialize};

/// Go ignores trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

const VERSION: &str = "meta.k8s.io/v1";

/// Content of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of all pages; `None` continues with the present state.
    pub(crate) at: Option<Revision>,
    /// The last key of the previous page, without the common prefix of the list's keys.
    pub(crate) after: String,
}

/// Encoding, as in kube-apiserver.
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
        // The next page begins with the first key after the last one.
        let wire = Wire { v: VERSION.to_owned(), rv, start: format!("/{}\0", self.after) };
        BASE64.encode(serde_json::to_vec(&wire).expect("text and numbers can always be written"))
    }

    pub(crate) fn decode(token: &str) -> Result<Self, Status> {
        let Wire { rv, start, .. } = wire(token).map_err(|why| {
            Status::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        })?;
        let at = u64::try_from(rv).ok().map(Revision::new);
        let after = start.strip_prefix('/').unwrap_or(&start).trim_end_matches('\0').to_owned();
        Ok(Self { at, after })
    }
}

/// The token's content, or an error in Go's words.
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
    // A path with `..` must not lead out of the list.
    let path = wire.start.strip_prefix('/').unwrap_or(&wire.start);
    if !path.is_empty() && path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(format!(": {}", wire.start));
    }
    Ok(wire)
}

/// The first invalid byte, as Go reports it.
fn illegal_byte(token: &str) -> Option<usize> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let alone = || (token.len() % 4 == 1).then(|| token.len() - 1);
    token.bytes().position(|byte| !is_known(byte)).or_else(alone)
}

#[cfg(test)]
mod tests {
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
}
