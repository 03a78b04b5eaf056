//! The fault of a body or a query: its place, the found value and the allowed ones.

use serde::de::{Expected, Unexpected};
use std::fmt::{self, Display, Formatter};

/// A fault, and the JSON pointer (RFC 6901) of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pointer: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    /// The text is not JSON.
    Syntax(String),
    Value {
        found: String,
        allowed: String,
    },
    Missing,
    Unknown {
        allowed: Vec<String>,
    },
    Twice,
    /// The words of a type that checks itself.
    Other(String),
}

/// Longer values are cut in messages.
const SHOWN_CHARS_MAX: usize = 100;

/// Separates pointer and message of an error inside another one: serde passes on the text of an error alone.
const NESTED: char = '\u{1f}';

impl Error {
    pub(super) fn syntax(text: &[u8], error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = match error.classify() {
            _ if text.iter().all(u8::is_ascii_whitespace) => "is empty".to_owned(),
            serde_json::error::Category::Eof => format!("ends too early, at line {line}, column {column}"),
            _ => {
                let place = format!(" at line {line} column {column}");
                let message = error.to_string().replace(&place, "").replace('`', "\"");
                format!("is not valid JSON at line {line}, column {column}: {message}")
            }
        };
        Self { pointer: String::new(), fault: Fault::Syntax(text) }
    }

    pub(super) fn value(found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { pointer: String::new(), fault: Fault::Value { found: found.into(), allowed: allowed.into() } }
    }

    pub(super) fn twice(name: &str) -> Self {
        Self { pointer: String::new(), fault: Fault::Twice }.inside(name)
    }

    /// The error, seen from the object or array around it.
    pub(super) fn inside(mut self, name: &str) -> Self {
        self.pointer.insert_str(0, &name.replace('~', "~0").replace('/', "~1"));
        self.pointer.insert(0, '/');
        self
    }

    /// The JSON pointer of the place.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The message, with other words for the place than the pointer.
    pub fn at(&self, place: &str) -> String {
        self.about(place)
    }

    /// The error as the text of an error around it, which finds the pointer in it.
    pub(crate) fn nested(&self) -> impl Display {
        let Self { pointer, fault } = self;
        let message = match fault {
            Fault::Other(text) => text.clone(),
            Fault::Syntax(_)
            | Fault::Value { .. }
            | Fault::Missing
            | Fault::Unknown { .. }
            | Fault::Twice => self.about(""),
        };
        format!("{NESTED}{pointer}{NESTED}{message}")
    }

    /// The message for a parameter of a query.
    pub fn of_parameter(&self) -> String {
        self.about(&format!("the parameter {}", self.pointer.trim_start_matches('/')))
    }

    fn is_secret(&self) -> bool {
        ["/password", "/nt_hash"].iter().any(|name| self.pointer.ends_with(name))
    }

    fn about(&self, place: &str) -> String {
        let text = match &self.fault {
            Fault::Syntax(text) => format!("{place} {text}"),
            // A reply never repeats a password, also not one of a wrong type.
            Fault::Value { allowed, .. } if self.is_secret() => {
                format!("{place} has a wrong type; allowed: {allowed}")
            }
            Fault::Value { found, allowed } => format!("{place} is {found}; allowed: {allowed}"),
            Fault::Missing => format!("{place} is missing"),
            Fault::Unknown { allowed } if allowed.is_empty() => {
                format!("{place} is unknown; allowed: none")
            }
            Fault::Unknown { allowed } => format!("{place} is unknown; allowed: {}", allowed.join(", ")),
            Fault::Twice => format!("{place} occurs twice"),
            // Types that check themselves say "is 0; allowed: …" of the value, or speak of something else.
            Fault::Other(text) if is_predicate(text) => format!("{place} {text}"),
            Fault::Other(text) => format!("{place}: {text}"),
        };
        text.trim_start().to_owned()
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the body" } else { &self.pointer };
        f.write_str(&self.about(place))
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        let text = message.to_string();
        if let Some((pointer, text)) = text.strip_prefix(NESTED).and_then(|rest| rest.split_once(NESTED)) {
            return Self { pointer: pointer.to_owned(), fault: Fault::Other(text.to_owned()) };
        }
        Self { pointer: String::new(), fault: Fault::Other(text) }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::value(shown(found), allowed(&expected.to_string()))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::value(quoted(variant), expected.join(", "))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let allowed = expected.iter().map(|&name| name.to_owned()).collect();
        Self { pointer: String::new(), fault: Fault::Unknown { allowed } }.inside(field)
    }

    fn missing_field(field: &'static str) -> Self {
        Self { pointer: String::new(), fault: Fault::Missing }.inside(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::twice(field)
    }
}

fn is_predicate(text: &str) -> bool {
    ["is ", "has ", "occurs "].iter().any(|verb| text.starts_with(verb))
}

fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        // As JSON: without an exponent, 1e300 has 301 digits.
        Unexpected::Float(number) => serde_json::Value::from(number).to_string(),
        Unexpected::Str(text) => quoted(text),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        other => other.to_string(),
    }
}

/// The words of JSON for those of Rust.
fn allowed(expected: &str) -> String {
    match expected {
        "u64" | "u128" | "usize" => "a whole number of 0 or more".to_owned(),
        "a nonzero u64" | "a nonzero usize" => "a whole number of 1 or more".to_owned(),
        "a nonzero u32" => format!("a whole number from 1 to {}", u32::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "i64" | "i32" | "i16" | "i8" => "a whole number".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        text if text.starts_with("struct ") => "an object".to_owned(),
        text => text.to_owned(),
    }
}
