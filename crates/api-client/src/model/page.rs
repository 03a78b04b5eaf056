//! Pages of lists.

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// The `page_token` of the next page. Left out on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// The page of a list that a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Entries at most. 100 if left out.
    #[serde(default, deserialize_with = "limit", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = super::PAGE_MAX))]
    pub limit: Option<u32>,
    /// `next_page_token` of the previous page. The first page if left out.
    #[serde(default, deserialize_with = "super::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = super::PAGE_TOKEN_CHARS_MAX))]
    pub page_token: Option<String>,
}

/// A number of entries of a page.
fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    struct Limit;

    impl Visitor<'_> for Limit {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from 1 to {}", super::PAGE_MAX)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
            let limit = u32::try_from(number).ok().filter(|limit| (1..=super::PAGE_MAX).contains(limit));
            limit.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }

    from.deserialize_u32(Limit).map(Some)
}
