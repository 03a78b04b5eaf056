//! Kinds of workloads, each with an assumed mix.

use super::Access;
use super::demand::{self, Demand};
use crate::source::{OWN, PAGE_003, PAGE_004};
use crate::{Bytes, Refusal, Source};

/// A kind of workload. The name is from a page, except `vm`. The mix is an assumption: no page gives blocks and reads.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkloadKind {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub access: Access,
    pub block: Bytes,
    pub read_thousandths: u32,
    pub about: &'static str,
    /// The demand of one user, stream, machine, GPU or job, where the kind has such a unit.
    pub demand: Option<&'static Demand>,
    pub source: Source,
}

const SCALE_OUT: &str =
    "scale-out tests of 4 and 8 KiB random and 64 and 256 KiB sequential operations stand for it";
const THROUGHPUT: &str = "64 to 256 KiB sequential operations stand for it";

const ALL: &[WorkloadKind] = &[
    WorkloadKind {
        name: "eda",
        aliases: &[],
        access: Access::Eda,
        block: super::EDA_BYTES,
        read_thousandths: super::EDA_READ_THOUSANDTHS,
        about: "the EDA mix of SPECstorage, with measured rates at 2 ms",
        demand: Some(&demand::JOB),
        source: PAGE_004,
    },
    sequential("media-rendering", &["media"], 750, SCALE_OUT, Some(&demand::STREAM)),
    sequential("media-repository", &[], 900, THROUGHPUT, Some(&demand::STREAM)),
    sequential("ai-ml", &["ai"], 900, THROUGHPUT, Some(&demand::GPU)),
    sequential("hpc", &[], 500, THROUGHPUT, None),
    random("database", &["databases"], 8, 700, None),
    random("file-share", &["home", "home-directories"], 4, 750, Some(&demand::USER)),
    WorkloadKind {
        about: "an assumption of Plimsoll: disks of virtual machines are files with small random operations",
        source: OWN,
        ..random("vm", &["vms", "virtual-machines"], 8, 600, Some(&demand::MACHINE))
    },
];

const fn sequential(
    name: &'static str,
    aliases: &'static [&'static str],
    read_thousandths: u32,
    about: &'static str,
    demand: Option<&'static Demand>,
) -> WorkloadKind {
    let (access, block) = (Access::Sequential, Bytes(256 << 10));
    WorkloadKind { name, aliases, access, block, read_thousandths, about, demand, source: PAGE_003 }
}

const fn random(
    name: &'static str,
    aliases: &'static [&'static str],
    kib: u64,
    read_thousandths: u32,
    demand: Option<&'static Demand>,
) -> WorkloadKind {
    WorkloadKind {
        name,
        aliases,
        access: Access::Random,
        block: Bytes(kib << 10),
        read_thousandths,
        about: "the tests with one client represent it",
        demand,
        source: PAGE_003,
    }
}

impl WorkloadKind {
    pub fn all() -> &'static [Self] {
        ALL
    }

    pub fn named(text: &str) -> Result<&'static Self, Refusal> {
        ALL.iter().find(|one| one.name == text || one.aliases.contains(&text)).ok_or_else(|| {
            let names: Vec<&str> = ALL
                .iter()
                .flat_map(|one| std::iter::once(one.name).chain(one.aliases.iter().copied()))
                .collect();
            Refusal::new(format!("\"{text}\" is not a kind of workload"), names.join(", "), OWN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_have_unique_names_and_valid_mixes() {
        let mut names = BTreeSet::new();
        for one in WorkloadKind::all() {
            for name in std::iter::once(&one.name).chain(one.aliases) {
                assert!(names.insert(*name), "{name}");
                assert_eq!(WorkloadKind::named(name), Ok(one));
            }
            assert!(one.block.0 > 0 && one.read_thousandths <= 1000);
        }
        let refusal = WorkloadKind::named("games").unwrap_err().to_string();
        assert!(refusal.contains("eda, media-rendering, media,"), "{refusal}");
    }
}
