//! The published pages: their measurements, setups and notes.

mod anf_eda;
mod anf_large;
mod anf_regular;
mod filestore;
mod gcnv;
mod part;

use crate::source::OWN;
use crate::{Conflict, Published, Refusal};

pub use part::{Page, Part};

static PAGES: [Page; 5] = [gcnv::PAGE, filestore::PAGE, anf_large::PAGE, anf_regular::PAGE, anf_eda::PAGE];

impl Page {
    pub fn all() -> &'static [Self] {
        &PAGES
    }

    pub fn by_name(text: &str) -> Result<&'static Self, Refusal> {
        PAGES.iter().find(|page| page.name == text).ok_or_else(|| {
            let names: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
            Refusal::new(format!("\"{text}\" is not a published page"), names.join(", "), OWN)
        })
    }

    pub fn conflicts(&self) -> impl Iterator<Item = &'static Conflict> {
        Conflict::all().filter(|conflict| conflict.pages.contains(&self.name))
    }
}

impl Part {
    pub fn published(&self) -> impl Iterator<Item = Published> {
        self.published.iter().filter_map(|name| name.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_on_its_page() {
        let mut shown = Vec::new();
        for page in Page::all() {
            assert_eq!(Page::by_name(page.name).unwrap().source, page.source);
            assert!(page.conflicts().count() > 0, "{} has contradictions", page.name);
            for name in page.parts.iter().flat_map(|part| part.published) {
                let published: Published = name.parse().unwrap();
                // Page 004 repeats the 8 KiB figures of page 002.
                let again = (page.name, *name) == ("anf-eda", "anf-large-8k-rand");
                assert!(again || published.source() == page.source, "{name}");
                shown.push(published.name());
            }
        }
        for published in Published::all() {
            // Results of SPEC are on no page.
            let is_shown = shown.contains(&published.name()) || published.name().starts_with("eda-");
            assert!(is_shown, "{} is on no page", published.name());
        }
        let refusal = Page::by_name("anf").unwrap_err().to_string();
        assert!(
            refusal.contains("\"anf\" is not a published page; allowed: gcnv, filestore, anf-large"),
            "{refusal}"
        );
    }

    #[test]
    fn every_conflict_is_on_existing_pages() {
        for conflict in Conflict::all() {
            conflict.pages.iter().for_each(|name| assert!(Page::by_name(name).is_ok(), "{name}"));
        }
    }
}
