//! The order of fields in a JSON text, which a [`Value`](serde_json::Value) does not keep.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{MAX_PATHS, Place};

/// Sorts paths of fields (`spec.containers[0].name`) by their order in a JSON text. Paths that the text does not
/// contain come last. A text with very long paths may be sorted only in part.
pub fn sort_by_document_order(text: &[u8], paths: &mut [String]) {
    let mut ranks: BTreeMap<String, usize> = paths.iter().map(|path| (path.clone(), usize::MAX)).collect();
    let mut walk = Walk { ranks: &mut ranks, seen: 0, made: 0 };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // Callers have parsed the text before, so that it is valid JSON.
    let _ = Step { place: Place::Root, walk: &mut walk }.deserialize(&mut deserializer);
    paths.sort_by_key(|path| ranks.get(path).copied().unwrap_or(usize::MAX));
}

struct Walk<'a> {
    ranks: &'a mut BTreeMap<String, usize>,
    seen: usize,
    /// Bytes of all paths built.
    made: usize,
}

struct Step<'a, 'w> {
    place: Place<'a>,
    walk: &'a mut Walk<'w>,
}

impl<'de> DeserializeSeed<'de> for Step<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.walk.made > MAX_PATHS {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(Step { place: Place::Item(&self.place, index), walk: &mut *self.walk })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            let place = Place::Field(&self.place, &name);
            let path = place.to_string();
            self.walk.made += path.len();
            self.walk.seen += 1;
            if let Some(rank) = self.walk.ranks.get_mut(&path) {
                *rank = (*rank).min(self.walk.seen);
            }
            fields.next_value_seed(Step { place, walk: &mut *self.walk })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_sorted_by_document_order() {
        let text = br#"{"z":[{"b":1,"a":[true,{"c":null}]}],"y":"x","k":{"l":1.5}}"#;
        let sorted = ["k", "none", "y", "z[0].a", "z[0].a[1].c", "z[0].b"].map(str::to_owned);
        let mut paths = sorted.clone();
        sort_by_document_order(text, &mut paths);
        assert_eq!(paths, ["z[0].b", "z[0].a", "z[0].a[1].c", "y", "k", "none"]);
        let mut paths = sorted.clone();
        sort_by_document_order(b"no JSON", &mut paths);
        assert_eq!(paths, sorted);
    }
}
