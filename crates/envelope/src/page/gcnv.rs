//! Google's benchmarks of Google Cloud NetApp Volumes.

use super::part::{Page, Part};
use crate::source::PAGE_000;

const CLIENTS: (&str, &str) = ("Clients", "6 × n2-standard-32, Red Hat 9");
const JOBS: (&str, &str) =
    ("Load", "fio, 8 jobs a client, 48 in all; mixes of 100, 75, 50, 25 and 0 % reads");
const WORKING_SET: (&str, &str) = ("Working set", "1 TiB a client, 6 TiB in all");

pub(super) const PAGE: Page = Page {
    name: "gcnv",
    title: "Google Cloud NetApp Volumes: performance of one volume with several clients",
    source: PAGE_000,
    about: &[
        "A basis for sizing: the limits of one volume that several client machines drive at the same time.",
        "A load that is mostly random does not reach the throughput of a sequential one.",
        "The page stands by throughput; its IOPS, at 4 and 8 KiB, are for information only.",
        "The volumes were so large that their capacity held nothing back: with still more of it one volume gets no more than \
         this. Standard, Premium and Extreme earn throughput by capacity up to there; at Flex with custom performance capacity, \
         throughput and IOPS are bought apart.",
        "Measured over NFSv3 at Flex and Extreme and over SMB at Extreme. Standard, Premium and NFSv4.1 have no figures.",
        "Several fast volumes in one project may run into limits of that project.",
    ],
    parts: &[
        Part {
            title: "Flex with custom performance, NFSv3",
            stands_for: "",
            setup: &[
                ("Volume", "10 TiB in a zonal pool with 5,120 MiB/s and 160,000 IOPS, the maximum"),
                CLIENTS,
                ("Mount", "nconnect=16, rsize=65536, wsize=65536"),
                ("Working set", "96 GiB a client, 576 GiB in all"),
                JOBS,
            ],
            published: &["gcnv-flex-custom-nfs3-64k-seq", "gcnv-flex-custom-nfs3-8k-rand"],
            notes: &[],
        },
        Part {
            title: "Extreme, NFSv3",
            stands_for: "",
            setup: &[
                ("Volume", "75 TiB"),
                CLIENTS,
                ("Mount", "nconnect=16; rsize and wsize are not given"),
                WORKING_SET,
                JOBS,
            ],
            published: &[
                "gcnv-extreme-nfs3-64k-seq",
                "gcnv-extreme-nfs3-256k-seq",
                "gcnv-extreme-nfs3-4k-rand",
                "gcnv-extreme-nfs3-8k-rand",
            ],
            notes: &[],
        },
        Part {
            title: "Extreme, SMB",
            stands_for: "",
            setup: &[
                ("Volume", "75 TiB"),
                ("Clients", "6 × n2-standard-32, Windows 2022"),
                ("Connections", "16 for each RSS network interface, set on the client"),
                WORKING_SET,
                JOBS,
            ],
            published: &[
                "gcnv-extreme-smb-64k-seq",
                "gcnv-extreme-smb-256k-seq",
                "gcnv-extreme-smb-4k-rand",
                "gcnv-extreme-smb-8k-rand",
            ],
            notes: &[],
        },
        Part {
            title: "A large volume under an EDA load",
            stands_for: "electronic design automation: metadata and IOPS in the front end, throughput in the back end",
            setup: &[
                ("Volume", "large, a parallel file system of up to 1 PiB"),
                ("Clients", "several over NFSv3, spread evenly over the volume's 6 addresses"),
                ("Load", "an industry-standard EDA benchmark with front end and back end"),
            ],
            published: &["gcnv-large-eda"],
            notes: &[],
        },
    ],
    scenarios: &["gcnv-scale-out", "gcnv-smb", "eda-blend"],
};
