//! The properties in which an existing object differs from a requested one, with both values.

use std::fmt::{self, Display, Formatter};

/// A property with its values as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub property: &'static str,
    /// Empty if the values are secret or too long to show.
    found: String,
    wanted: String,
}

impl Difference {
    /// A property whose values are never shown.
    pub(crate) fn secret(property: &'static str) -> Self {
        Self { property, found: String::new(), wanted: String::new() }
    }

    /// Returns the difference, if there is one.
    pub(crate) fn of<T: PartialEq>(
        property: &'static str,
        found: &T,
        wanted: &T,
        text: impl Fn(&T) -> String,
    ) -> Option<Self> {
        if found == wanted {
            return None;
        }
        let (found, wanted) = (text(found), text(wanted));
        // Texts leave out details; equal ones explain nothing.
        let is_telling = found != wanted;
        Some(if is_telling { Self { property, found, wanted } } else { Self::secret(property) })
    }

    /// [`Self::of`], where a request without the property matches any value.
    pub(crate) fn if_set<T: PartialEq>(
        property: &'static str,
        found: &T,
        wanted: Option<&T>,
        text: impl Fn(&T) -> String,
    ) -> Option<Self> {
        Self::of(property, found, wanted?, text)
    }
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.found.is_empty() {
            true => f.write_str(self.property),
            false => write!(f, "{} ({}, not {})", self.property, self.found, self.wanted),
        }
    }
}

/// The names in a list, or `none`.
pub(crate) fn listed(items: &[impl Display]) -> String {
    or_none(items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

pub(crate) fn option(value: Option<&impl Display>) -> String {
    value.map_or_else(|| "none".to_owned(), ToString::to_string)
}

/// The variant's name in small letters.
pub(crate) fn variant(value: &impl fmt::Debug) -> String {
    format!("{value:?}").to_ascii_lowercase()
}

pub(crate) fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}
