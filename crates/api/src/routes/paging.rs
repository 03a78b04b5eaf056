//! Lists in pages.

use crate::convert::ToBody;
use crate::problem::{Failure, Result};
use api_client::model::{PAGE_TOKEN_CHARS_MAX, Page, PageQuery};
use http_server::Problem;

/// Entries of a page of which nothing is said.
const PAGE_USUAL: u32 = 100;

/// Returns the number of entries of a page.
pub(super) fn limit(asked: &PageQuery) -> Result<usize> {
    if asked.page_token.as_ref().is_some_and(|token| token.chars().count() > PAGE_TOKEN_CHARS_MAX) {
        return Err(Problem::malformed(format!(
            "the parameter page_token is too long; allowed: at most {PAGE_TOKEN_CHARS_MAX} characters"
        ))
        .into());
    }
    Ok(usize::try_from(asked.limit.unwrap_or(PAGE_USUAL)).unwrap_or(usize::MAX))
}

/// The page token of a list in the order of names; an error if it is no name.
pub(super) fn after<T: std::str::FromStr>(asked: &PageQuery) -> Result<Option<&str>> {
    let token = asked.page_token.as_deref();
    match token.map(str::parse::<T>) {
        Some(Err(_)) => Err(bad_page_token()),
        Some(Ok(_)) | None => Ok(token),
    }
}

/// A page of what management lists.
pub(super) fn page<T: ToBody>(of: &control::Page<T>) -> Page<T::Body> {
    Page { items: of.items.iter().map(T::to_body).collect(), next_page_token: of.next.clone() }
}

/// A page of a list that is here as a whole, in the order of `key`.
pub(super) fn page_of<T, K: Ord + std::fmt::Display + std::str::FromStr>(
    all: Vec<T>,
    asked: &PageQuery,
    key: impl Fn(&T) -> K,
) -> Result<(Vec<T>, Option<String>)> {
    let limit = limit(asked)?;
    let after = asked.page_token.as_ref().map(|token| token.parse::<K>()).transpose();
    let after = after.map_err(|_| bad_page_token())?;
    let mut items: Vec<T> =
        all.into_iter().filter(|item| after.as_ref().is_none_or(|after| key(item) > *after)).collect();
    let is_whole = items.len() <= limit;
    items.truncate(limit);
    let next = if is_whole { None } else { items.last().map(|item| key(item).to_string()) };
    Ok((items, next))
}

/// A page token that was not given out.
pub(super) fn bad_page_token() -> Failure {
    control::Error::Invalid {
        what: "the parameter page_token is not from this list".to_owned(),
        allowed: "the next_page_token of the previous page".to_owned(),
    }
    .into()
}
