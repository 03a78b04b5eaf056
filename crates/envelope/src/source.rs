//! Sources of figures: a table of common names and addresses.

use serde::Serialize;

/// A page that a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The common name, as in `ANF regular volumes (Microsoft)`.
    pub name: &'static str,
    /// The address without the scheme, or a description.
    pub page: &'static str,
    /// The page's date, year first; empty without a date.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub date: &'static str,
}

impl Source {
    const fn new(name: &'static str, page: &'static str, date: &'static str) -> Self {
        Self { name, page, date }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !f.alternate() || self.page.is_empty() {
            return f.pad(self.name);
        }
        write!(f, "{}, {}", self.name, self.page)?;
        if self.date.is_empty() { Ok(()) } else { write!(f, ", {}", self.date) }
    }
}

pub(crate) const A1: Source = Source::new(
    "ANF resource limits (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/azure-netapp-files-resource-limits",
    "2025-06-10",
);
pub(crate) const A2: Source = Source::new(
    "ANF service levels (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/azure-netapp-files-service-levels",
    "",
);
pub(crate) const A3: Source = Source::new(
    "ANF large volume requirements (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/large-volumes-requirements-considerations",
    "2024-07",
);
pub(crate) const A3_EARLY_2024: Source =
    Source::new("ANF large volume requirements (Microsoft)", A3.page, "early 2024");
pub(crate) const A4: Source = Source::new(
    "ANF cool access (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/manage-cool-access",
    "2025-07-22",
);
pub(crate) const A5: Source = Source::new(
    "ANF mount options for Linux (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/performance-linux-mount-options",
    "2024-03",
);
pub(crate) const A6: Source = Source::new(
    "ANF numbers of files (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/maxfiles-concept",
    "2025-01",
);
pub(crate) const A9: Source =
    Source::new("Azure SDK (Microsoft)", "azure-mgmt-netapp 18.0.0", "api 2026-08-01");

pub(crate) const S1: Source = Source::new(
    "GCNV service levels (Google)",
    "cloud.google.com/netapp/volumes/docs/discover/service-levels",
    "2026-04-10",
);
pub(crate) const S2: Source =
    Source::new("GCNV quotas (Google)", "cloud.google.com/netapp/volumes/docs/quotas", "2026-04-08");
pub(crate) const S3: Source = Source::new(
    "GCNV volumes overview (Google)",
    "cloud.google.com/netapp/volumes/docs/configure-and-use/volumes/overview",
    "2026-04-10",
);
pub(crate) const S4: Source = Source::new(
    "GCNV performance sizing (Google)",
    "cloud.google.com/netapp/volumes/docs/plan-and-prepare/volume-performance-sizing",
    "",
);
pub(crate) const S5: Source = Source::new(
    "GCNV release notes (Google)",
    "cloud.google.com/netapp/volumes/docs/release-notes",
    "2024-09",
);

/// Read in November 2026; the page has no date.
pub(crate) const S6: Source = Source::new(
    "GCNV snapshots (Google)",
    "cloud.google.com/netapp/volumes/docs/configure-and-use/volume-snapshots/overview",
    "",
);

pub(crate) const F1: Source =
    Source::new("Filestore performance (Google)", "cloud.google.com/filestore/docs/performance", "");
pub(crate) const F2: Source = Source::new(
    "Filestore custom performance (Google)",
    "cloud.google.com/filestore/docs/custom-performance",
    "2026-04-10",
);
pub(crate) const F3: Source =
    Source::new("Filestore limits (Google)", "cloud.google.com/filestore/docs/limits", "2026-04-10");
pub(crate) const F4: Source =
    Source::new("Filestore mounting (Google)", "cloud.google.com/filestore/docs/mounting-fileshares", "");
pub(crate) const F5: Source = Source::new(
    "Filestore service tiers (Google)",
    "cloud.google.com/filestore/docs/service-tiers-zonal, service-tiers-regional",
    "",
);

/// Google's client libraries: their comments contain ranges that no page has.
pub(crate) const G: Source =
    Source::new("Google client libraries", "google-cloud-netapp 0.10.3, google-cloud-filestore 1.18.0", "");

/// Pages 000 to 004 contain measured figures.
pub(crate) const PAGE_000: Source = Source::new(
    "GCNV benchmarks (Google)",
    "cloud.google.com/netapp/volumes/docs/performance/performance-benchmarks",
    "",
);
pub(crate) const PAGE_001: Source = Source::new("Filestore performance 2021 (Google)", F1.page, "2021");
pub(crate) const PAGE_002: Source = Source::new(
    "ANF large volumes (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/performance-large-volumes-linux",
    "",
);
pub(crate) const PAGE_003: Source = Source::new(
    "ANF regular volumes (Microsoft)",
    "learn.microsoft.com/azure/azure-netapp-files/performance-benchmarks-linux",
    "",
);
pub(crate) const PAGE_004: Source = Source::new(
    "ANF for EDA (Microsoft)",
    "learn.microsoft.com/training/modules/azure-netapp-files-electronic-design-automation",
    "",
);

pub(crate) const SLOTS: Source = Source::new(
    "ANF concurrency (Microsoft)",
    "Azure NetApp Files on concurrency: 128 calls of an NFSv3 connection; Linux requests 64 slots of an NFSv4.1 session",
    "",
);

pub(crate) const SPEC: Source =
    Source::new("SPECstorage results (SPEC)", "results that SPEC publishes of storage", "");

pub(crate) const NFS5: Source =
    Source::new("nfs(5) of Linux", "man7.org/linux/man-pages/man5/nfs.5.html", "");

/// Our own decisions, without a page.
pub(crate) const OWN: Source = Source::new("Plimsoll", "", "");
