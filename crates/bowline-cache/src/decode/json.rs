//! A JSON decoder that knows the length of each array before it decodes it.
//!
//! With `serde_json`, a `Vec` grows by doubling, often from four elements: a pod with one container status and three
//! volumes has room for four of each. Here each array is counted first, with the fast skipper, and the `Vec` gets its
//! exact size. `metadata.managedFields` is skipped on the way.
//!
//! It handles common input only. [`decode`] passes the rest to `serde_json`: all errors, for their messages, and rare
//! constructs.

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor, value::StrDeserializer,
};

use super::{
    cursor::{Cursor, is_space},
    identity::without_managed_fields,
};

/// Maximum nesting of arrays and objects, as in `serde_json`.
const DEPTH: u8 = 127;

/// Maximum bytes read for counting, in multiples of the input: nested arrays are counted repeatedly.
const BUDGET: usize = 4;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Decodes an object, with or without `managedFields`. `scratch` is a buffer to reuse.
///
/// # Errors
/// The errors of `serde_json`.
pub(crate) fn decode<'de, S>(
    seed: S,
    object: &'de [u8],
    keep_managed_fields: bool,
    scratch: &'de mut Vec<u8>,
) -> serde_json::Result<S::Value>
where
    S: DeserializeSeed<'de> + Clone,
{
    if let Ok(value) = certain(seed.clone(), object, keep_managed_fields) {
        return Ok(value);
    }
    let object = if keep_managed_fields { object } else { without_managed_fields(object, scratch) };
    let mut deserializer = serde_json::Deserializer::from_slice(object);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Decodes common input; fails for all else.
fn certain<'de, S: DeserializeSeed<'de>>(
    seed: S,
    object: &'de [u8],
    keep_managed_fields: bool,
) -> Result<S::Value, Unsure> {
    let text = std::str::from_utf8(object).map_err(|_| Unsure)?;
    let mut json = Json {
        text,
        at: 0,
        depth: 0,
        budget: object.len() * BUDGET,
        keep_managed_fields,
        in_metadata: false,
    };
    let value = seed.deserialize(&mut json)?;
    if json.peek().is_some() { Err(Unsure) } else { Ok(value) }
}

/// Invalid JSON, an unexpected type, or a construct that is left to `serde_json`.
#[derive(Debug)]
struct Unsure;

impl std::fmt::Display for Unsure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("cannot be decoded here")
    }
}

impl std::error::Error for Unsure {}

impl de::Error for Unsure {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

#[derive(Debug)]
struct Json<'de> {
    text: &'de str,
    at: usize,
    depth: u8,
    budget: usize,
    keep_managed_fields: bool,
    /// Whether the current value is the top-level `metadata`.
    in_metadata: bool,
}

enum Text<'de> {
    Plain(&'de str),
    Escaped(String),
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Escaped(text) => text,
        }
    }
}

/// Unescapes a string with common escapes. The result is shorter than the input.
fn unescaped(mut text: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(text.len());
    while let Some(at) = memchr::memchr(b'\\', text.as_bytes()) {
        unescaped.push_str(text.get(..at)?);
        unescaped.push(match text.as_bytes().get(at + 1)? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            plain @ (b'"' | b'\\' | b'/') => char::from(*plain),
            _ => return None,
        });
        text = text.get(at + 2..)?;
    }
    unescaped.push_str(text);
    Some(unescaped)
}

enum Number {
    Natural(u64),
    Negative(i64),
    Real(f64),
}

impl<'de> Json<'de> {
    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte after white space, not consumed.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !is_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Unsure> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(Unsure)
    }

    fn word(&mut self, word: &str) -> Result<(), Unsure> {
        // The caller finds an invalid byte after the word.
        if self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            return Ok(());
        }
        Err(Unsure)
    }

    fn boolean(&mut self) -> Result<bool, Unsure> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => Err(Unsure),
        }
    }

    #[inline]
    fn string(&mut self) -> Result<Text<'de>, Unsure> {
        self.expect(b'"')?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut has_escapes = false;
        loop {
            if let Some(word) = bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
                let special = special(u64::from_le_bytes(*word));
                if special == 0 {
                    self.at += 8;
                    continue;
                }
                self.at += special.trailing_zeros() as usize / 8;
            }
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.at += 2;
                }
                Some(0..0x20) | None => return Err(Unsure),
                Some(_) => self.at += 1,
            }
        }
        let end = self.at;
        self.at += 1;
        if has_escapes {
            if let Some(text) = self.text.get(start..end).and_then(unescaped) {
                return Ok(Text::Escaped(text));
            }
            let quoted = self.text.get(start - 1..self.at).ok_or(Unsure)?;
            return serde_json::from_str(quoted).map(Text::Escaped).map_err(|_| Unsure);
        }
        self.text.get(start..end).map(Text::Plain).ok_or(Unsure)
    }

    #[inline]
    fn number(&mut self) -> Result<Number, Unsure> {
        self.peek();
        let start = self.at;
        let negative = self.byte() == Some(b'-');
        if negative {
            self.at += 1;
        }
        let digits = self.at;
        let mut value = 0_u64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let length = self.at - digits;
        let has_zero = self.text.as_bytes().get(digits) == Some(&b'0');
        let is_plain = matches!(length, 1..=18) && !(has_zero && (length > 1 || negative));
        if is_plain && !matches!(self.byte(), Some(b'.' | b'e' | b'E')) {
            let signed = i64::try_from(value).map_err(|_| Unsure)?;
            return Ok(if negative { Number::Negative(-signed) } else { Number::Natural(value) });
        }
        while matches!(self.byte(), Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
            self.at += 1;
        }
        let text = self.text.get(start..self.at).ok_or(Unsure)?;
        let number: serde_json::Number = serde_json::from_str(text).map_err(|_| Unsure)?;
        match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => Ok(Number::Natural(number)),
            (_, Some(number), _) => Ok(Number::Negative(number)),
            (_, _, Some(number)) => Ok(Number::Real(number)),
            _ => Err(Unsure),
        }
    }

    /// Counts the elements of the array after its opening bracket; `None` if invalid or over budget.
    fn count(&mut self) -> Option<usize> {
        let rest = self.text.as_bytes().get(self.at..)?;
        if self.budget == 0 {
            return None;
        }
        let mut cursor = Cursor::new(rest);
        let mut count = 0;
        if cursor.peek()? != b']' {
            loop {
                cursor.value()?;
                count += 1;
                match cursor.peek()? {
                    b',' => cursor.expect(b',')?,
                    _ => break,
                }
            }
        }
        self.budget = self.budget.saturating_sub(cursor.position());
        Some(count)
    }

    fn array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unsure> {
        self.expect(b'[')?;
        self.enter()?;
        let left = self.count();
        let value = visitor.visit_seq(Elements { json: self, first: true, left })?;
        self.depth -= 1;
        self.expect(b']')?;
        Ok(value)
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unsure> {
        self.expect(b'{')?;
        self.enter()?;
        let level = self.depth;
        let value = visitor.visit_map(Entries { json: self, first: true, level })?;
        self.depth -= 1;
        self.expect(b'}')?;
        Ok(value)
    }

    fn enter(&mut self) -> Result<(), Unsure> {
        self.depth += 1;
        if self.depth > DEPTH { Err(Unsure) } else { Ok(()) }
    }

    fn ignore(&mut self) -> Result<(), Unsure> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'n') => self.word("null"),
            Some(b't' | b'f') => self.boolean().map(drop),
            Some(b'[') => {
                self.at += 1;
                self.enter()?;
                de::IgnoredAny.visit_seq(Elements { json: self, first: true, left: None })?;
                self.depth -= 1;
                self.expect(b']')
            }
            Some(b'{') => self.object(de::IgnoredAny).map(drop),
            _ => self.number().map(drop),
        }
    }
}

/// The high bit of the first byte that is a quote, backslash or control character; higher bits are arbitrary.
#[inline]
fn special(word: u64) -> u64 {
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let backslash = zero(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

impl<'de> Deserializer<'de> for &mut Json<'de> {
    type Error = Unsure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        match self.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.array(visitor),
            Some(b't' | b'f') => visitor.visit_bool(self.boolean()?),
            Some(b'n') => {
                self.word("null")?;
                visitor.visit_unit()
            }
            _ => self.deserialize_i64(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        visitor.visit_bool(self.boolean()?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        match self.number()? {
            Number::Natural(number) => visitor.visit_u64(number),
            Number::Negative(number) => visitor.visit_i64(number),
            Number::Real(number) => visitor.visit_f64(number),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.deserialize_i64(visitor)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        match self.string()? {
            Text::Plain(text) => visitor.visit_borrowed_str(text),
            Text::Escaped(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        if self.peek() == Some(b'n') {
            self.word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unsure> {
        if name.starts_with("$serde_json::private") {
            return Err(Unsure);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.array(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.object(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unsure> {
        if name.starts_with("$serde_json::private") {
            return Err(Unsure);
        }
        self.object(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unsure> {
        if self.peek() == Some(b'"') {
            let text = self.string()?;
            let variant: StrDeserializer<'_, Unsure> = text.as_str().into_deserializer();
            return visitor.visit_enum(variant);
        }
        self.expect(b'{')?;
        self.enter()?;
        let value = visitor.visit_enum(Variant(self))?;
        self.depth -= 1;
        self.expect(b'}')?;
        Ok(value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unsure> {
        self.ignore()?;
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

struct Elements<'a, 'de> {
    json: &'a mut Json<'de>,
    first: bool,
    left: Option<usize>,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Unsure;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Unsure> {
        if self.json.peek() == Some(b']') {
            return Ok(None);
        }
        if !std::mem::take(&mut self.first) {
            self.json.expect(b',')?;
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        seed.deserialize(&mut *self.json).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.left
    }
}

struct Entries<'a, 'de> {
    json: &'a mut Json<'de>,
    first: bool,
    level: u8,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Unsure;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unsure> {
        loop {
            if self.json.peek() == Some(b'}') {
                return Ok(None);
            }
            if !std::mem::take(&mut self.first) {
                self.json.expect(b',')?;
            }
            let key = self.json.string()?;
            self.json.expect(b':')?;
            if self.level == 1 {
                self.json.in_metadata = key.as_str() == "metadata";
            } else if self.level == 2
                && self.json.in_metadata
                && !self.json.keep_managed_fields
                && key.as_str() == "managedFields"
            {
                let mut cursor = Cursor::new(self.json.text.as_bytes().get(self.json.at..).ok_or(Unsure)?);
                self.json.at += cursor.value().ok_or(Unsure)?.end;
                continue;
            }
            return match key {
                Text::Plain(key) => seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some),
                Text::Escaped(key) => seed.deserialize(key.into_deserializer()).map(Some),
            };
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unsure> {
        seed.deserialize(&mut *self.json)
    }
}

/// `{"Name": content}`.
struct Variant<'a, 'de>(&'a mut Json<'de>);

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Unsure;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Unsure> {
        let name = seed.deserialize(&mut *self.0)?;
        self.0.expect(b':')?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Unsure;

    fn unit_variant(self) -> Result<(), Unsure> {
        Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Unsure> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Unsure> {
        self.0.array(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unsure> {
        self.0.object(visitor)
    }
}

#[cfg(test)]
mod tests;
