//! Paths to fields as custom resource definitions write them: `.spec.replicas`, `.spec['the.name']`.

use super::node::Node;
use crate::FieldPath;

/// The target of a path.
pub(super) struct Found<'n> {
    pub(super) path: FieldPath,
    /// The first name in the path.
    pub(super) first: String,
    pub(super) node: Option<&'n Node>,
}

/// Resolves a path in a schema.
///
/// # Errors
/// The reason why it does not resolve, in the words of Kubernetes.
pub(super) fn follow<'n>(text: &str, schema: &'n Node, allows_brackets: bool) -> Result<Found<'n>, String> {
    let mut tokens = tokens(text).into_iter();
    let mut found = Found { path: FieldPath::root(), first: String::new(), node: Some(schema) };
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" if !allows_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inside = quoted.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
                let Some(inside) = inside else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                unescaped(inside)?
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        step(&mut found, &name)?;
        if token == "[" {
            let closing = tokens.next().ok_or_else(end)?;
            if closing != "]" {
                return Err(format!("expected ] but got {closing}"));
            }
        }
    }
    Ok(found)
}

fn step(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    let node = found.node.ok_or_else(nowhere)?;
    if found.first.is_empty() {
        name.clone_into(&mut found.first);
    }
    if !node.properties.is_empty() {
        found.path = found.path.child(name);
        found.node = Some(node.properties.get(name).ok_or_else(nowhere)?);
    } else if node.additional.is_some() {
        found.path = found.path.key(name);
        found.node = node.additional_schema();
    } else {
        return Err(nowhere());
    }
    Ok(())
}

/// Dots, brackets, and the texts between them. A text in single quotes is one token.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let bytes = rest.as_bytes();
        let length = match bytes[0] {
            b'.' | b'[' | b']' => 1,
            b'\'' => {
                let closing =
                    (1..bytes.len()).find(|&index| bytes[index] == b'\'' && bytes[index - 1] != b'\\');
                closing.map_or(bytes.len(), |index| index + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind;
    }
    tokens
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next() {
                Some(c @ ('\'' | '"' | '\\')) => c,
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('a') => '\u{7}',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('v') => '\u{b}',
                _ => return Err("invalid string literal: invalid syntax".to_owned()),
            }),
            c => out.push(c),
        }
    }
    Ok(out)
}
