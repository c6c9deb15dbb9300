//! The parts of protobuf and of OTLP's messages that tests check.

use std::collections::BTreeMap;

/// A message: its fields, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    texts: Vec<(u64, &'a [u8])>,
    numbers: Vec<(u64, u64)>,
}

/// A span.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The names of its events.
    pub(crate) events: Vec<String>,
    /// Code and text.
    pub(crate) status: Option<(u64, String)>,
}

impl<'a> Message<'a> {
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Self {
        let mut message = Self::default();
        while !bytes.is_empty() {
            let tag = number(&mut bytes);
            let field = tag >> 3;
            match tag & 7 {
                0 => message.numbers.push((field, number(&mut bytes))),
                1 => drop(bytes.split_off(..8)),
                2 => {
                    let length = usize::try_from(number(&mut bytes)).expect("it fits");
                    message.texts.push((field, bytes.split_off(..length).expect("all of it")));
                }
                5 => drop(bytes.split_off(..4)),
                other => panic!("there is no wire type {other}"),
            }
        }
        message
    }

    fn all(&self, field: u64) -> impl Iterator<Item = Message<'a>> {
        self.texts.iter().filter(move |(number, _)| *number == field).map(|(_, bytes)| Message::parse(bytes))
    }

    /// The first message in a field.
    pub(crate) fn inside(&self, field: u64) -> Message<'a> {
        self.all(field).next().unwrap_or_default()
    }

    fn bytes(&self, field: u64) -> Option<&'a [u8]> {
        self.texts.iter().find(|(number, _)| *number == field).map(|(_, bytes)| *bytes)
    }

    fn text(&self, field: u64) -> Option<String> {
        self.bytes(field).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn number(&self, field: u64) -> Option<u64> {
        self.numbers.iter().find(|(number, _)| *number == field).map(|(_, value)| *value)
    }
}

/// Key and value of each attribute in a field.
pub(crate) fn attributes(message: &Message<'_>, field: u64) -> BTreeMap<String, String> {
    let attributes = message.all(field).map(|pair| {
        let value = pair.inside(2);
        // A string, a truth value or an integer.
        let number = || value.number(2).or_else(|| value.number(3)).map(|number| number.to_string());
        (pair.text(1).unwrap_or_default(), value.text(1).or_else(number).unwrap_or_default())
    });
    attributes.collect()
}

/// All spans of a request to export some, the oldest first.
pub(crate) fn spans(request: &Message<'_>) -> Vec<Span> {
    let scopes = request.all(1).flat_map(|resource| resource.all(2).collect::<Vec<_>>());
    let spans = scopes.flat_map(|scope| scope.all(2).collect::<Vec<_>>()).map(|span| {
        let bytes = |field| span.bytes(field).unwrap_or_default().to_vec();
        let status = span.inside(15);
        Span {
            trace: bytes(1),
            id: bytes(2),
            parent: bytes(4),
            name: span.text(5).unwrap_or_default(),
            attributes: attributes(&span, 9),
            events: span.all(11).map(|event| event.text(2).unwrap_or_default()).collect(),
            status: status.number(3).map(|code| (code, status.text(2).unwrap_or_default())),
        }
    });
    spans.collect()
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.split_off_first().expect("all of it");
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}
