//! Contradictions between pages or within one, by name.

use super::Conflict;
use crate::Profile;

/// Without figures in `of`, the contradiction is about the page alone.
const fn conflict(
    name: &'static str,
    pages: &'static [&'static str],
    of: &'static [&'static str],
    text: &'static str,
) -> Conflict {
    Conflict { name, pages, of, text, profiles: &[] }
}

const fn with_profiles(profiles: &'static [Profile], conflict: Conflict) -> Conflict {
    Conflict { profiles, ..conflict }
}

const REGULAR_IOPS: &[&str] =
    &["anf-regular-4k-rand-cached", "anf-regular-4k-rand-uncached", "anf-regular-8k-rand-uncached"];
pub(crate) const TIERS: &[&str] = &[
    "filestore-basic-hdd-1-10",
    "filestore-basic-hdd-10-63.9",
    "filestore-basic-ssd",
    "filestore-high-scale-60",
    "filestore-high-scale-320",
    "filestore-high-scale-per-10tb",
    "filestore-high-scale-per-client",
];

pub(super) const CONFLICTS: [&[Conflict]; 4] = [&GCNV, &FILESTORE, &ANF_LARGE, &ANF_REGULAR];

const GCNV: [Conflict; 6] = [
    conflict(
        "gcnv-headline-rounding",
        &["gcnv"],
        &[],
        "The page's text rounds away from its tables: 2,180 for 2,172 MiB/s, 270,000 and 110,000 for 265,000 and 104,000 \
         IOPS, over SMB 1,790 for 1,781 MiB/s and 280,000 and 90,000 for 271,800 and 85,500 IOPS. The tables count.",
    ),
    with_profiles(
        &[Profile::GcnvVolume4_5Gib, Profile::GcnvVolume5Gib],
        conflict(
            "gcnv-extreme-vs-docs-cap",
            &["gcnv"],
            &["gcnv-extreme-nfs3-64k-seq", "gcnv-extreme-smb-64k-seq"],
            "Google measured more than 5 GiB/s; today's pages cap regular volumes at 4.5 or 5 GiB/s.",
        ),
    ),
    with_profiles(
        &[Profile::GcnvLarge12_5Gib, Profile::GcnvLarge21_5Gib, Profile::GcnvLarge30Gib],
        conflict(
            "gcnv-large-vs-docs",
            &["gcnv"],
            &["gcnv-large-eda"],
            "The page of GCNV benchmarks has up to 21.5 GiB/s, 1,350,000 IOPS and 1 PiB; other pages had 12.5 GiB/s in \
             2024, and have 22 to 30 GiB/s and 3 PiB now and no limit of operations.",
        ),
    ),
    conflict(
        "gcnv-flex-not-reached",
        &["gcnv"],
        &["gcnv-flex-custom-nfs3-64k-seq", "gcnv-flex-custom-nfs3-8k-rand"],
        "Flex reached neither the 5,120 MiB/s nor the 160,000 IOPS that were bought.",
    ),
    conflict(
        "gcnv-flex-above-extreme",
        &["gcnv"],
        &[],
        "At 75 % reads Flex (3,952 MiB/s) is above Extreme (3,048 MiB/s), though it is below at pure reads.",
    ),
    conflict(
        "gcnv-256k-reads",
        &["gcnv"],
        &[],
        "Pure reads of Extreme are lower at 256 KiB (4,928 MiB/s) than at 64 KiB (5,237 MiB/s).",
    ),
];

const FILESTORE: [Conflict; 6] = [
    with_profiles(
        &[Profile::Filestore2021],
        conflict(
            "filestore-units",
            &["filestore"],
            TIERS,
            "The page of Filestore's performance is of 2021 and has TB and MB/s; its English version mixes them with TiB and \
             MiB/s, which today's page has for the same Basic tiers.",
        ),
    ),
    conflict(
        "filestore-today",
        &["filestore"],
        &["filestore-high-scale-60", "filestore-high-scale-320"],
        "High Scale as of 2021, with a cap for each client, is no more: its successor is Zonal, by the TiB and without such a \
         cap. rsize and wsize were to be 1 MiB then and are to be 512 KiB today, but on Basic.",
    ),
    conflict(
        "filestore-footnote",
        &["filestore"],
        TIERS,
        "IOPS were measured with blocks of 4 KiB and MB/s with blocks of 1 MiB; a translated page prints 4,000 and 1 million \
         operations.",
    ),
    conflict(
        "filestore-10-tb",
        &["filestore"],
        &["filestore-basic-hdd-1-10", "filestore-basic-hdd-10-63.9"],
        "10 TB are in both rows of Basic HDD, and the text says once beyond 10 TB and once over 10 TB; here 10 TB count as the \
         upper row.",
    ),
    conflict(
        "filestore-16-gbit",
        &["filestore"],
        &["filestore-high-scale-per-client"],
        "A client that reads at 16 Gbit/s, as the page says of n1-standard-8, reads four times the 500 MB/s that High Scale \
         gives one client.",
    ),
    conflict(
        "filestore-sync-reads",
        &["filestore"],
        &[],
        "The command for random reads has sync=1, which has no effect there.",
    ),
];

const ANF_LARGE: [Conflict; 10] = [
    with_profiles(
        &[Profile::AnfLarge10240],
        conflict(
            "large-ceiling",
            &["anf-large", "anf-eda"],
            &["anf-large-limit-ultra", "anf-large-volume-type"],
            "The ceiling of large Ultra volumes is 12,800 MiB/s on Microsoft's page of large volumes and 10,240 MiB/s on its \
             older one for EDA.",
        ),
    ),
    with_profiles(
        &[Profile::AnfLarge10240],
        conflict(
            "large-ultra-ceiling-history",
            &["anf-large", "anf-eda"],
            &[],
            "The documents gave large Ultra volumes 10,240 MiB/s in 2023 and 12,800 since 2024; 12,800 are 100 TiB at 128 MiB/s \
             each.",
        ),
    ),
    with_profiles(
        &[Profile::AnfLarge10240],
        conflict(
            "large-seq-read",
            &["anf-large", "anf-eda"],
            &["anf-large-256k-seq", "anf-large-eda-256k-seq"],
            "256 KiB sequential reads in the same setup: 12,761 MiB/s on Microsoft's page of large volumes, 9,970 MiB/s on its \
             older one for EDA; each just under its page's ceiling.",
        ),
    ),
    with_profiles(
        &[Profile::AnfLarge12800ByLevel],
        conflict(
            "large-standard-premium-ceiling",
            &["anf-large"],
            &["anf-large-limit-premium", "anf-large-limit-standard"],
            "Since 2024 all levels of large volumes scale to 12,800 MiB/s; the page with the measurements has 6,400 and 1,600.",
        ),
    ),
    with_profiles(
        &[Profile::AnfRegular100Gib, Profile::AnfLarge10240, Profile::AnfLargeDedicated],
        conflict(
            "capacity-regular-large",
            &["anf-eda"],
            &["anf-regular-volume-type", "anf-large-volume-type"],
            "Microsoft's page for EDA has regular volumes from 100 GiB and large ones of 50 to 500 TiB; today they begin at \
             50 GiB, and large ones end at 1 PiB, or 2 PiB on dedicated capacity.",
        ),
    ),
    conflict(
        "scaleup-block",
        &["anf-large"],
        &["anf-large-scaleup-256k-seq", "anf-large-scaleup-gain"],
        "Microsoft's page of large volumes speaks of a 64 KiB workload, of 256 KiB operations and of rsize and wsize 65536 in \
         the same test, and does not say how many connections there were.",
    ),
    conflict(
        "egress-units",
        &["anf-large", "anf-eda"],
        &["anf-large-scaleup-256k-seq"],
        "Microsoft's page of large volumes calls 10,000 MiB/s the line rate of 100 Gbit/s, which is 11,921 MiB/s, and lets the \
         same machine send 12,500 MiB/s (12.2 GiB/s); its 2,000 MiB/s are called 2 GiB/s.",
    ),
    conflict(
        "eda-above-reads",
        &["anf-eda"],
        &["anf-spec-eda-large"],
        "The 10,030 MiB/s of the EDA load are above the 9,970 MiB/s of pure sequential reads on the same page.",
    ),
    conflict(
        "eda-observed-ceiling",
        &["anf-eda"],
        &[],
        "The 10,240 MiB/s that are called observed are the ceiling of the level, not a measurement.",
    ),
    conflict(
        "eda-setups",
        &["anf-eda"],
        &[],
        "256 KiB a transfer is called far better for EDA, while 64 and 256 KiB did alike on the large volume. Regular volumes \
         had nconnect=16, the large one nconnect=8. nocto and actimeo are credited with gains of direct transfers, which ask \
         for no attributes.",
    ),
];

const ANF_REGULAR: [Conflict; 11] = [
    with_profiles(
        &[Profile::AnfRegularObserved],
        conflict(
            "regular-read-iops",
            &["anf-regular", "anf-eda"],
            &[
                "anf-regular-volume-type",
                "anf-regular-4k-rand-cached",
                "anf-regular-4k-rand-uncached",
                "anf-regular-8k-rand-uncached",
            ],
            "Regular volumes: about 200,000 reads and 135,000 writes a second at most on Microsoft's page for EDA, but 460,000, \
             388,000 and 293,000 reads and 130,000, 120,000 and 111,000 writes on its page of regular volumes.",
        ),
    ),
    conflict(
        "regular-seq-read",
        &["anf-regular", "anf-eda"],
        &["anf-regular-volume-type", "anf-regular-64k-seq-cached", "anf-regular-64k-seq-uncached"],
        "4,500 MiB/s of regular volumes on Microsoft's page for EDA is only the cached read of its page of regular volumes; \
         uncached that has 3,600.",
    ),
    conflict(
        "clients-32-vs-6",
        &["anf-regular"],
        REGULAR_IOPS,
        "Microsoft's page of regular volumes says 6 virtual machines in its configuration and 32 clients in its section on \
         operations.",
    ),
    conflict(
        "uncached-means",
        &["anf-regular"],
        &[
            "anf-regular-4k-rand-cached",
            "anf-regular-4k-rand-uncached",
            "anf-regular-8k-rand-uncached",
            "anf-regular-64k-seq-cached",
            "anf-regular-64k-seq-uncached",
            "anf-regular-256k-seq-uncached",
        ],
        "Uncached on Microsoft's page of regular volumes means fio's randrepeat=0: other places in each run, not direct I/O.",
    ),
    conflict(
        "cache-drop",
        &["anf-regular"],
        &["anf-regular-4k-rand-uncached"],
        "Microsoft's page of regular volumes says that 4 KiB reads fell by 17 % and writes by 8 % without cache; by its figures \
         it is 15.7 % and 7.7 %.",
    ),
    conflict(
        "seq-256k-prose",
        &["anf-regular"],
        &["anf-regular-64k-seq-uncached", "anf-regular-256k-seq-uncached"],
        "Microsoft's page of regular volumes says that 256 KiB brings slightly lower writes and higher reads than 64 KiB; its \
         figures say the opposite.",
    ),
    conflict(
        "seq-256k-middle",
        &["anf-regular"],
        &["anf-regular-256k-seq-uncached"],
        "At 256 KiB and 50 % reads the page says more than the 3,500 MiB/s of pure reads, without a figure: 3,500 are used.",
    ),
    conflict(
        "nconnect-rsize",
        &["anf-regular"],
        &[],
        "The nconnect test lists 4 and 64 KiB as wsize and rsize, while its mount options have 262144: they are the sizes of \
         fio's blocks.",
    ),
    conflict(
        "nconnect-64k-pattern",
        &["anf-regular"],
        &[],
        "The nconnect test at 64 KiB is called random in the text, sequential in its headings, and of 4 KiB in one sentence.",
    ),
    conflict(
        "regular-64k-cached",
        &["anf-regular"],
        &[],
        "The uncached 64 KiB test compares itself with tests without cache and must mean with; what it calls slight is 50 % more \
         writes and 20 % fewer reads. Caching is said to help, yet cached writes (1,600 MiB/s) are below uncached ones (2,400).",
    ),
    conflict(
        "regular-setups",
        &["anf-regular"],
        &[],
        "The text has mixes in 10 % steps, the uncached charts in 25 % steps. The nconnect test ran on a D32s_v4, all others on \
         D32s_v5. The setup for high throughput does not say how large the volume was.",
    ),
];
