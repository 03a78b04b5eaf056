//! Client machines named by the pages, with their network limits.

use crate::source::{OWN, PAGE_000, PAGE_001, PAGE_002, PAGE_003, PAGE_004};
use crate::{BytesPerSecond, Refusal, Source};
use serde::Serialize;

/// A virtual machine type, as far as a page describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The type, as in `E32s_v5`.
    pub name: &'static str,
    /// Maximum send rate, which bounds writes; `None` if no page gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<BytesPerSecond>,
    /// Maximum receive rate, which bounds reads; `None` if no page gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<BytesPerSecond>,
    /// The page's description.
    pub about: &'static str,
    pub source: Source,
}

const CARD_100G: BytesPerSecond = BytesPerSecond(12_500_000_000);

const fn without_figures(name: &'static str, about: &'static str, source: Source) -> Machine {
    Machine { name, egress: None, ingress: None, about, source }
}

const ALL: &[Machine] = &[
    Machine {
        ingress: Some(BytesPerSecond(2_000_000_000)),
        ..without_figures("n1-standard-8", "reads at about 16 Gbit/s where the load suits caches", PAGE_001)
    },
    without_figures("n2-standard-32", "six of them drove the volumes; no figure of its network", PAGE_000),
    without_figures("D16s_v5", "ten of them made the EDA load; no figure of its network", PAGE_004),
    without_figures("D32s_v4", "one of them tested nconnect; no figure of its network", PAGE_003),
    without_figures("D32s_v5", "six of them drove the volume; no figure of its network", PAGE_003),
    Machine {
        egress: Some(BytesPerSecond::mib(2_000)),
        ..without_figures("E32s_v5", "may send 2,000 MiB/s", PAGE_002)
    },
    Machine {
        // The page's egress limit of 12,500 MiB/s is more than 100 Gbit/s: the card is the limit.
        egress: Some(CARD_100G),
        ingress: Some(CARD_100G),
        ..without_figures(
            "E104id_v5",
            "a card of 100 Gbit/s (11,921 MiB/s; the page calls 10,000 MiB/s its line rate); may send 12,500 MiB/s, which \
             is more than the card carries",
            PAGE_002,
        )
    },
];

impl Machine {
    pub fn all() -> &'static [Self] {
        ALL
    }

    /// Accepts either case, with or without Azure's `Standard_`.
    pub fn named(text: &str) -> Result<&'static Self, Refusal> {
        let lower = text.trim().to_ascii_lowercase();
        let name = lower.strip_prefix("standard_").unwrap_or(&lower);
        ALL.iter().find(|one| one.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|one| one.name).collect();
            let allowed =
                format!("{}; or give its network limits with --egress and --ingress", names.join(", "));
            Refusal::new(format!("no page describes the machine \"{text}\""), allowed, OWN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_parses_cloud_spellings() {
        for (text, name) in
            [("E32s_v5", "E32s_v5"), ("Standard_E104id_v5", "E104id_v5"), ("N1-Standard-8", "n1-standard-8")]
        {
            assert_eq!(Machine::named(text).unwrap().name, name);
        }
        let refusal = Machine::named("m5.large").unwrap_err().to_string();
        assert!(refusal.contains("allowed: n1-standard-8, n2-standard-32, D16s_v5"), "{refusal}");
    }

    #[test]
    fn figures_match_pages() {
        let of = |name: &str| Machine::named(name).unwrap();
        assert_eq!(of("E32s_v5").egress, Some(BytesPerSecond::mib(2_000)));
        assert_eq!(of("E32s_v5").ingress, None, "the page limits what is sent alone");
        assert_eq!(of("n1-standard-8").ingress, "16Gbit/s".parse().ok());
        assert_eq!(of("E104id_v5").ingress, "100Gbit/s".parse().ok());
        for silent in ["n2-standard-32", "D16s_v5", "D32s_v5", "D32s_v4"] {
            assert_eq!((of(silent).egress, of(silent).ingress), (None, None), "{silent}");
        }
    }
}
