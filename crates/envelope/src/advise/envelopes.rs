//! The published curves of each kind of volume, and how they were measured.

use super::{Access, Stream, Workload};
use crate::source::{PAGE_000, PAGE_002, PAGE_003, PAGE_004};
use crate::{Bytes, BytesPerSecond, Iops, Level, Profile, Protocol, Shape, Source};

pub(super) struct Envelope {
    pub levels: &'static [Level],
    pub large: bool,
    /// Applies only if this profile is chosen, and then before all others.
    pub profile: Option<Profile>,
    pub cached: bool,
    pub scope: Scope,
    pub smb: bool,
    pub curves: &'static [&'static str],
    pub eda: Option<Eda>,
    pub setup: Setup,
}

/// A page's EDA load. The data per operation differs from page to page.
#[derive(Clone, Copy)]
pub(super) struct Eda {
    pub iops: Iops,
    pub data: BytesPerSecond,
    /// The latency at this load in microseconds, where the page gives it.
    pub latency_us: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Volume,
    Client,
}

pub(super) struct Setup {
    pub clients: Option<u32>,
    pub machine: &'static str,
    pub working_set: Option<Bytes>,
    pub source: Source,
}

const GCNV_CLASSIC: &[Level] = &[Level::GcnvStandard, Level::GcnvPremium, Level::GcnvExtreme];
const GCNV_LARGE: &[Level] = &[Level::GcnvPremium, Level::GcnvExtreme];
const ANF: &[Level] = &[Level::AnfStandard, Level::AnfPremium, Level::AnfUltra, Level::AnfFlexible];

const GCNV: Envelope = Envelope {
    levels: GCNV_CLASSIC,
    large: false,
    profile: None,
    cached: false,
    scope: Scope::Volume,
    smb: false,
    curves: &[
        "gcnv-extreme-nfs3-4k-rand",
        "gcnv-extreme-nfs3-8k-rand",
        "gcnv-extreme-nfs3-64k-seq",
        "gcnv-extreme-nfs3-256k-seq",
    ],
    eda: None,
    setup: Setup {
        clients: Some(6),
        machine: "n2-standard-32",
        working_set: Some(Bytes::tib(6)),
        source: PAGE_000,
    },
};

const ANF_REGULAR: Envelope = Envelope {
    levels: ANF,
    curves: &[
        "anf-regular-4k-rand-uncached",
        "anf-regular-8k-rand-uncached",
        "anf-regular-64k-seq-uncached",
        "anf-regular-256k-seq-uncached",
    ],
    setup: Setup { clients: Some(6), machine: "D32s_v5", working_set: Some(Bytes::tib(1)), source: PAGE_003 },
    ..GCNV
};

const ANF_LARGE: Envelope = Envelope {
    large: true,
    curves: &["anf-large-8k-rand", "anf-large-256k-seq"],
    setup: Setup {
        clients: Some(12),
        machine: "E32s_v5, 2,000 MiB/s each",
        working_set: Some(Bytes::tib(1)),
        source: PAGE_002,
    },
    ..ANF_REGULAR
};

pub(super) const ENVELOPES: &[Envelope] = &[
    GCNV,
    Envelope {
        smb: true,
        curves: &[
            "gcnv-extreme-smb-4k-rand",
            "gcnv-extreme-smb-8k-rand",
            "gcnv-extreme-smb-64k-seq",
            "gcnv-extreme-smb-256k-seq",
        ],
        ..GCNV
    },
    Envelope {
        levels: &[Level::GcnvFlexCustom],
        curves: &["gcnv-flex-custom-nfs3-8k-rand", "gcnv-flex-custom-nfs3-64k-seq"],
        setup: Setup { working_set: Some(Bytes::gib(576)), ..GCNV.setup },
        ..GCNV
    },
    Envelope {
        levels: GCNV_LARGE,
        large: true,
        curves: &[],
        eda: Some(Eda { iops: Iops(1_350_000), data: BytesPerSecond::mib(22_016), latency_us: None }),
        setup: Setup {
            clients: None,
            machine: "machines that are not named",
            working_set: None,
            ..GCNV.setup
        },
        ..GCNV
    },
    ANF_REGULAR,
    Envelope {
        cached: true,
        curves: &["anf-regular-4k-rand-cached", "anf-regular-64k-seq-cached"],
        ..ANF_REGULAR
    },
    ANF_LARGE,
    Envelope {
        profile: Some(Profile::AnfLarge10240),
        curves: &["anf-large-8k-rand", "anf-large-eda-256k-seq"],
        setup: Setup { clients: None, source: PAGE_004, ..ANF_LARGE.setup },
        ..ANF_LARGE
    },
    Envelope { eda: Some(at_2_ms(39_601, 692)), curves: &[], setup: EDA_SETUP, ..ANF_REGULAR },
    Envelope { eda: Some(at_2_ms(652_260, 10_030)), curves: &[], setup: EDA_SETUP, ..ANF_LARGE },
    Envelope {
        scope: Scope::Client,
        curves: &["anf-large-scaleup-8k-rand", "anf-large-scaleup-256k-seq"],
        setup: Setup {
            clients: Some(1),
            machine: "E104id_v5, 100 Gbit/s",
            working_set: None,
            source: PAGE_002,
        },
        ..ANF_LARGE
    },
];

const fn at_2_ms(iops: u64, mib: u64) -> Eda {
    Eda { iops: Iops(iops), data: BytesPerSecond::mib(mib), latency_us: Some(2_000) }
}

const EDA_SETUP: Setup = Setup { clients: Some(10), machine: "D16s_v5", working_set: None, source: PAGE_004 };

impl Envelope {
    pub(super) fn of(
        level: Level,
        large: bool,
        protocol: Protocol,
        profiles: &[Profile],
        scope: Scope,
    ) -> impl Iterator<Item = &'static Self> {
        let smb = protocol == Protocol::Smb;
        let fits = move |one: &&Self| {
            one.levels.contains(&level) && one.large == large && one.smb == smb && one.scope == scope
        };
        let profiled = |one: &&Self| one.profile.is_some_and(|profile| profiles.contains(&profile));
        let with = ENVELOPES.iter().filter(fits).filter(profiled).collect::<Vec<_>>();
        with.into_iter().chain(ENVELOPES.iter().filter(fits).filter(|one| one.profile.is_none()))
    }

    pub(super) fn shapes(&self) -> impl Iterator<Item = Shape> + use<> {
        self.curves.iter().filter_map(|name| name.parse().ok())
    }
}

impl Eda {
    /// Rounded down to bytes.
    pub(super) fn block(self) -> Bytes {
        Bytes(self.data.0 / self.iops.0)
    }
}

/// The load that the ceilings of such volumes must carry. EDA operations get the data per operation of the
/// page for these volumes, if such a page exists.
pub(super) fn needed(workload: &Workload, level: Level, large: bool) -> Vec<Stream> {
    let mut envelopes = Envelope::of(level, large, workload.protocol, &[], Scope::Volume);
    let block = envelopes.find_map(|one| one.eda).map(Eda::block);
    let of_page = |stream: Stream| match block.filter(|_| stream.access == Access::Eda) {
        Some(block) => Stream { block, rate: stream.rate_of_blocks(block), ..stream },
        None => stream,
    };
    workload.needed().into_iter().map(of_page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_belongs_to_envelope() {
        let named: Vec<&str> = ENVELOPES.iter().flat_map(|one| one.curves).copied().collect();
        for name in &named {
            assert!(name.parse::<Shape>().is_ok(), "{name}");
        }
        for shape in Shape::all() {
            assert!(named.contains(&shape.name()), "{shape} is of no volume");
        }
        for one in ENVELOPES {
            for shape in one.shapes() {
                // Page 004 repeats the figures of page 002, except one.
                let again = one.profile.is_some() && shape.name() == "anf-large-8k-rand";
                assert!(again || shape.source() == one.setup.source, "{shape}");
                assert_eq!(shape.protocol() == Protocol::Smb, one.smb, "{shape}");
                assert_eq!(shape.name().ends_with("-cached"), one.cached, "{shape}");
            }
        }
    }
}
