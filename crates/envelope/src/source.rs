//! Where figures come from: the tags that comments, refusals and `level show` cite.

use serde::Serialize;

/// A page that a figure was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its short name, as in `A1`.
    pub tag: &'static str,
    /// Its address without the scheme, or what it is.
    pub page: &'static str,
    /// The page's date, year first; empty where it has none.
    pub date: &'static str,
}

impl Source {
    const fn new(tag: &'static str, page: &'static str, date: &'static str) -> Self {
        Self { tag, page, date }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.tag, self.page)?;
        if self.date.is_empty() { Ok(()) } else { write!(f, " ({})", self.date) }
    }
}

pub(crate) const A1: Source = Source::new(
    "A1",
    "learn.microsoft.com/azure/azure-netapp-files/azure-netapp-files-resource-limits",
    "2025-06-10",
);
pub(crate) const A2: Source =
    Source::new("A2", "learn.microsoft.com/azure/azure-netapp-files/azure-netapp-files-service-levels", "");
pub(crate) const A3: Source = Source::new(
    "A3",
    "learn.microsoft.com/azure/azure-netapp-files/large-volumes-requirements-considerations",
    "2024-07",
);
pub(crate) const A3_EARLY_2024: Source = Source::new("A3", A3.page, "early 2024");
pub(crate) const A4: Source =
    Source::new("A4", "learn.microsoft.com/azure/azure-netapp-files/manage-cool-access", "2025-07-22");
pub(crate) const A5: Source = Source::new(
    "A5",
    "learn.microsoft.com/azure/azure-netapp-files/performance-linux-mount-options",
    "2024-03",
);
pub(crate) const A6: Source =
    Source::new("A6", "learn.microsoft.com/azure/azure-netapp-files/maxfiles-concept", "2025-01");
pub(crate) const A9: Source = Source::new("A9", "azure-mgmt-netapp 18.0.0", "api 2026-08-01");

pub(crate) const S1: Source =
    Source::new("S1", "cloud.google.com/netapp/volumes/docs/discover/service-levels", "2026-04-10");
pub(crate) const S2: Source = Source::new("S2", "cloud.google.com/netapp/volumes/docs/quotas", "2026-04-08");
pub(crate) const S3: Source = Source::new(
    "S3",
    "cloud.google.com/netapp/volumes/docs/configure-and-use/volumes/overview",
    "2026-04-10",
);
pub(crate) const S4: Source =
    Source::new("S4", "cloud.google.com/netapp/volumes/docs/plan-and-prepare/volume-performance-sizing", "");
pub(crate) const S5: Source =
    Source::new("S5", "cloud.google.com/netapp/volumes/docs/release-notes", "2024-09");

pub(crate) const F1: Source = Source::new("F1", "cloud.google.com/filestore/docs/performance", "");
pub(crate) const F2: Source =
    Source::new("F2", "cloud.google.com/filestore/docs/custom-performance", "2026-04-10");
pub(crate) const F3: Source = Source::new("F3", "cloud.google.com/filestore/docs/limits", "2026-04-10");
pub(crate) const F4: Source = Source::new("F4", "cloud.google.com/filestore/docs/mounting-fileshares", "");
pub(crate) const F5: Source =
    Source::new("F5", "cloud.google.com/filestore/docs/service-tiers-zonal, service-tiers-regional", "");

/// Google's client libraries, whose comments carry ranges that no page has.
pub(crate) const G: Source =
    Source::new("G", "google-cloud-netapp 0.10.3, google-cloud-filestore 1.18.0", "");

/// The pages with measured figures, by their numbers.
pub(crate) const PAGE_000: Source =
    Source::new("page 000", "cloud.google.com/netapp/volumes/docs/performance/performance-benchmarks", "");
pub(crate) const PAGE_001: Source = Source::new("page 001", F1.page, "2021");
pub(crate) const PAGE_002: Source = Source::new(
    "page 002",
    "learn.microsoft.com/azure/azure-netapp-files/performance-large-volumes-linux",
    "",
);
pub(crate) const PAGE_003: Source =
    Source::new("page 003", "learn.microsoft.com/azure/azure-netapp-files/performance-benchmarks-linux", "");
pub(crate) const PAGE_004: Source = Source::new(
    "page 004",
    "learn.microsoft.com/training/modules/azure-netapp-files-electronic-design-automation",
    "",
);

/// How many calls a server takes at a time.
pub(crate) const SLOTS: Source = Source::new(
    "concurrency",
    "Azure NetApp Files on concurrency: 128 calls of an NFSv3 connection; Linux asks for 64 slots of an NFSv4.1 session",
    "",
);

/// Results of others, for overall response times.
pub(crate) const SPEC: Source = Source::new("SPEC", "results that SPEC publishes of storage", "");

/// What no page says and we decided.
pub(crate) const OWN: Source = Source::new("Plimsoll", "own rule", "");
