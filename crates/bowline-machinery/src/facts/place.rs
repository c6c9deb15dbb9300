//! The decoder's position in an object, for error messages. A path is built only for an error.

use std::fmt::Write;

use super::go_type::Field;
use crate::quote::quoted;

/// A step on the path from the root of an object, and the steps before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Root,
    /// A field of the struct of that name.
    Field(&'a Place<'a>, &'static str, &'a Field),
    Index(&'a Place<'a>, usize),
    Key(&'a Place<'a>, &'a str),
    /// Into a type that decodes itself. Go's errors inside it still name the outer struct.
    Inside(&'a Place<'a>),
}

impl<'a> Place<'a> {
    /// The path of a field that this struct does not have, as Kubernetes' strict decoder prints it.
    pub(super) fn unknown(&self, field: &str) -> String {
        let mut path = self.strict_path();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(field);
        format!("unknown field {}", quoted(&path))
    }

    /// The innermost struct and the path of fields down to here, joined by dots, as Go's decoder prints them: without
    /// indexes and keys, with the names of embedded structs. `None` at the root.
    pub(super) fn go_field(&self) -> Option<(&'static str, String)> {
        let mut structure = None;
        let mut path = String::new();
        let mut inside = false;
        for step in self.steps() {
            match step {
                Place::Field(_, name, field) => {
                    if !inside {
                        structure = Some(go_name(name));
                    }
                    for part in [field.embedded, field.name] {
                        if !path.is_empty() && !part.is_empty() {
                            path.push('.');
                        }
                        path.push_str(part);
                    }
                }
                Place::Inside(_) => inside = true,
                Place::Root | Place::Index(..) | Place::Key(..) => {}
            }
        }
        structure.map(|structure| (structure, path))
    }

    fn strict_path(&self) -> String {
        let mut path = String::new();
        for step in self.steps() {
            match step {
                Place::Field(_, _, &Field { name, .. }) | Place::Key(_, name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
                Place::Index(_, index) => {
                    // Writing to a string cannot fail.
                    let _ = write!(path, "[{index}]");
                }
                Place::Root | Place::Inside(_) => {}
            }
        }
        path
    }

    fn steps(&self) -> impl Iterator<Item = Place<'a>> {
        let mut way = vec![*self];
        let mut at = *self;
        while let Place::Field(parent, ..)
        | Place::Index(parent, _)
        | Place::Key(parent, _)
        | Place::Inside(parent) = at
        {
            way.push(*parent);
            at = *parent;
        }
        way.into_iter().rev()
    }
}

/// A type's name without its package: `PodSpec` of `core/v1.PodSpec`.
fn go_name(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, name)| name)
}
